/*# The classes that the reference computes with, and the epilogue's functions over them. #*/
//% set operators, functions = test.reference.operators, test.reference.functions
//% if not test.scalar.is_integer
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

// A result with what its operands' errors make of it, and its own rounding: none where the type holds an exact result.
[[maybe_unused]] Bounded rounded(${ test.wide } value, double inherited)
{
    const bool held = inherited == 0 && static_cast<${ out.element.scalar }>(value) == value;
    const double own = UNIT_ROUNDOFF * (std::fabs(double(value)) + inherited) + std::numeric_limits<${ out.element.scalar }>::denorm_min();
    return {value, held ? 0 : inherited + ${ "SHARES * " if test.scalar.label == "f64" }own};
}

//% if test.reference.numbers
[[maybe_unused]] Bounded number(double value) { return rounded(value, 0); }
//% endif
//% if "~" in operators
[[maybe_unused]] Bounded operator-(Bounded a) { return {-a.value, a.bound}; }
//% endif
//% if "+" in operators
[[maybe_unused]] Bounded operator+(Bounded a, Bounded b) { return rounded(a.value + b.value, a.bound + b.bound); }
//% endif
//% if "-" in operators
[[maybe_unused]] Bounded operator-(Bounded a, Bounded b) { return rounded(a.value - b.value, a.bound + b.bound); }
//% endif
//% if "*" in operators
[[maybe_unused]] Bounded operator*(Bounded a, Bounded b)
{
    const double x = std::fabs(double(a.value)), y = std::fabs(double(b.value));
    return rounded(a.value * b.value, x * b.bound + y * a.bound + a.bound * b.bound);
}
//% endif
//% if "/" in operators
[[maybe_unused]] Bounded operator/(Bounded a, Bounded b)
{
    const double ratio = std::fabs(double(a.value / b.value));
    return rounded(a.value / b.value, (a.bound + ratio * b.bound) / (std::fabs(double(b.value)) - b.bound));
}
/*% endif %*/

//% endif
//% if out.amaxes
// The largest magnitude so far, and that of x.
Bounded larger(Bounded amax, Bounded x)
{
    const ${ test.wide } size = std::fabs(x.value), value = std::max(amax.value, size);
    const ${ test.wide } low = std::max(amax.value - amax.bound, size - x.bound), high = std::max(amax.value + amax.bound, size + x.bound);
    return {value, double(std::max(value - low, high - value))};
}

//% endif
//% if test.sums.is_integer
// An integer of 32 bits, which wraps around.
struct Integer {
    std::uint32_t bits;

    explicit Integer(std::uint32_t bits) : bits(bits) {}
    explicit Integer(int value) : bits(value) {}
    explicit Integer(double value) : bits(static_cast<std::uint32_t>(static_cast<std::int64_t>(value))) {}
    std::int32_t value() const { return static_cast<std::int32_t>(bits); }
//% if not test.scalar.is_integer
    operator Bounded() const { return rounded(value(), 0); }
//% endif
};

//% if "~" in operators
[[maybe_unused]] Integer operator-(Integer a) { return Integer(-a.bits); }
//% endif
//% for operator in ["+", "-", "*"] if operator in operators
[[maybe_unused]] Integer operator${ operator }(Integer a, Integer b) { return Integer(a.bits ${ operator } b.bits); }
/*% endfor %*/

//% endif
//% if functions | selectattr("ulps") | list
//% set scales = functions | map(attribute="of_x") | unique | list
//% if scales | length > 1
// A function that rises, falls or is convex near x, of which CUDA's is off by `ulps` units in the last place, or in that of x.
//% elif scales == [true]
// A function that rises, falls or is convex near x, of which CUDA's is off by `ulps` units in the last place of x.
//% else
// A function that rises, falls or is convex near x, of which CUDA's is off by `ulps` units in the last place.
//% endif
template <typename Function>
Bounded called(Function f, double ulps, Bounded x${ ", bool of_x" if scales | length > 1 })
{
    const ${ test.wide } value = f(x.value), off = x.bound;
    const double inherited = double(std::max(std::fabs(f(x.value + off) - value), std::fabs(f(x.value - off) - value)));
//% set of_value, of_x = "std::fabs(double(value)) + inherited", "std::fabs(double(x.value)) + double(off)"
    const double unit = ${ of_x if scales == [true] else "of_x ? %s : %s" | format(of_x, of_value) if scales | length > 1 else of_value };
    const double own = 2 * ulps * UNIT_ROUNDOFF * unit + std::numeric_limits<${ out.element.scalar }>::min();
    return {value, inherited + ${ "SHARES * " if test.scalar.label == "f64" }own};
}

//% endif
//% set plain = "std::int32_t" if test.scalar.is_integer else test.wide
//% set dot_value = ".value()" if test.scalar.is_integer else ".value"
//% for f in functions
${ test.value } ${ f.name }(${ test.value } ${ f.parameters | join(", %s " | format(test.value)) })
{
//% if f.defined
    return ${ f.text };
//% else
    const auto f = [](${ plain } ${ f.parameters | join(", %s " | format(plain)) }) -> ${ plain } {
//% if f.library
        using std::${ f.library | join(", std::") };
//% endif
        return ${ f.text };
    };
//% if f.ulps
    return called(f, ${ f.ulps }, x${ ", %s" | format(f.of_x | lower) if scales | length > 1 });
//% elif test.scalar.is_integer
    return Integer(f(${ f.parameters | join(".value(), ") }.value()));
//% else
    return {f(${ f.parameters | join(".value, ") }.value), std::max({${ f.parameters | join(".bound, ") }.bound})};
//% endif
//% endif
}

//% endfor
