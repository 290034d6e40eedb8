/*# Whether calls go to the kernels that the rules name, and what deciding costs. #*/
${ lib.name }_args call_of(const Shape& s, Address at)
{
    ${ lib.name }_args args = {};
    args.product = ${ lib.name | upper }_${ p.name | upper };
//% for name in out.runtime_names
    args.${ name } = s.${ name };
//% endfor
//% for name in p.out.located
    args.${ name } = at;
//% endfor
    return args;
}

bool reaches_rules()
{
    constexpr Reach REACHES[] = {
//% for reach in test.reaches
        {${ p.capability(reach) }, ${ test.place(reach) }, "${ reach.kernel }"},
//% endfor
    };
    bool passed = true;
    const int here = capability_here();
    for (const Reach& reach : REACHES) {
        if (reach.capability != here) continue;
        const auto call = call_of(SHAPES[reach.shape], {SOMEWHERE});
        const char* kernel = ${ lib.name }_kernel(&call);
        const bool right = kernel != nullptr && std::strcmp(kernel, reach.kernel) == 0;
        std::printf("%s  ${ p.name } %dx%dx%d goes to %s\n", right ? "PASS" : "FAIL", call.M, call.N, call.K, kernel == nullptr ? ${ lib.name }_refusal() : kernel);
        passed &= right;
    }
    constexpr int CALLS = 1 << 18;
    const auto call = call_of(SHAPES[0], {SOMEWHERE});
    ${ lib.name }_kernel(&call);  // the first call asks for the device
    const auto begin = std::chrono::steady_clock::now();
    int found = 0;
    for (int i = 0; i < CALLS; ++i) found += ${ lib.name }_kernel(&call) != nullptr;
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    std::printf("      ${ p.name } decides in %.0f ns\n", took.count() / CALLS);
    return passed && found == CALLS;
}

