/*# The fields of a plan by their names; a plan without an element of C ends here. #*/
    reason[0] = '\0';
    if (plan == nullptr) return refuse(cudaErrorInvalidValue, "%s is null", "plan");
    [[maybe_unused]] const auto& [${ out.plan_fields | join(", ") }] = *plan;
//% if out.may_be_empty
    if (blocks == 0) return cudaSuccess;  // C has no elements
//% endif
