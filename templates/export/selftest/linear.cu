/*# The linear epilogue of a sum that may be off. #*/
// A value, and how far a kernel's may be off.
struct Bounded {
//% if test.wide == "double"
    double value, bound;
//% else
    ${ test.wide } value;
    double bound;
//% endif
};

constexpr double UNIT_ROUNDOFF = 1.0 / (1LL << ${ test.scalar.precision });  // of ${ test.scalar.label }
//% if test.scalar.label == "f64"
// Rounding errors of the reference count where long double is a double, as it is for some compilers.
constexpr double SHARES = std::numeric_limits<long double>::digits > 53 ? 1 : 2;
/*% endif %*/

// alpha * acc + beta * C: both products and their sum are rounded, unless the data are exact.
Bounded linear(const Check& s, Bounded acc, ${ test.wide } C)
{
    const ${ test.wide } scaled = s.alpha * acc.value, added = s.beta * C;
    const double off = std::fabs(double(s.alpha)) * acc.bound;
    const double own = UNIT_ROUNDOFF * double(std::fabs(scaled) + std::fabs(added) + std::fabs(scaled + added) + 2 * off);
    const double least = 3 * std::numeric_limits<${ out.element.scalar }>::denorm_min();
    return {scaled + added, s.exact ? 0 : off + ${ "SHARES * " if test.scalar.label == "f64" }own * (1 + 4 * UNIT_ROUNDOFF) + least};
}

