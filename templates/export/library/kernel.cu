/*# A kernel with its launcher, as a library takes it: nvcc's passes for other architectures find nothing of it. #*/
//% if feature
#if !defined(__CUDA_ARCH__) || defined(${ feature })  // of ${ arch } alone: other architectures have other kernels
//% endif
${ text }
//%- if feature
#endif
//% endif
