/*# What the compiler says in its pass for an architecture for which nothing of `name` is compiled: they are `run_by` others. #*/
#ifdef __CUDA_ARCH_LIST__  // of nvcc: all architectures of the build
template <int... BUILT>
constexpr bool ${ name }_is_served = (... || (BUILT != __CUDA_ARCH__ && (${ run_by.may_be })));
static_assert(${ name }_is_served<__CUDA_ARCH_LIST__>, "${ name } needs ${ run_by.text }: compile it with ${ flags }");
#endif
#pragma message("${ name } is not compiled for one of the build's architectures: it needs ${ run_by.text }")
