/*# The fields of a plan by their names; a plan without an element of C ends here. #*/
    const cudaError_t begun = begin(plan);
    if (begun != cudaSuccess) return begun;
    [[maybe_unused]] const auto& [${ out.plan_fields | join(", ") }${ ", packed" if out.packed }] = *plan;
//% if out.may_be_empty
    if (blocks == 0) return cudaSuccess;  // C has no elements
//% endif
//% if not out.run_by.all_known
    const cudaError_t here = compiled_here();
    if (here != cudaSuccess) return here;
//% endif
