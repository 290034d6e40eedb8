/*# Which kernel serves which sizes along the one that is a range. #*/
// A kernel and the largest size that it serves; the last one of a list serves all beyond.
struct Step {
    int most;
    const Kernel* kernel;
};

using Size = int Args::*;

struct Steps {
    Size size;  // that the bounds refer to
    const Step *begin, *last;
};

const Kernel* step_of(const Steps& steps, const Args& a)
{
    const auto below = [](const Step& step, int size) { return step.most < size; };
    return std::lower_bound(steps.begin, steps.last, a.*steps.size, below)->kernel;
}

