// Holds C against A * B in double precision, element by element: see gemmgen/run/acceptance.py. C's matrices lie `stride`
// elements apart with `ld` elements between rows; the products lie one behind the other without padding.

// Numbers of a rule, in the order of its record.
struct Rule {
    double alpha, beta;
    double of_terms, of_largest, least;
    double of_sum, of_spread, of_size, of_size_spread;
    double rounding, tiny, reordering, most;  // of an epilogue's steps
};

// C's type: numbers of `precision` bits, the smallest normal one 2^min_exponent.
struct Format {
    double least, largest;
    double precision, min_exponent;
};

struct Shape {
    long long rows, columns, batch, ld, stride;
    long long storage;    // of an element: one of Storage
    long long exact;      // no error is allowed
    long long wraps;      // sums are integers, modulo 2^32
    long long integer;    // and so are results
    long long immediate;  // C's type is the scalars': a result may be compared before it is stored
    long long unrounded;  // storing rounds nothing
    long long saturates;  // what is too large becomes the largest number
    long long whole;      // C's type is an integer
    long long steps;      // of an epilogue; 0: C is linear in products
    long long products;   // matrices of B, whose columns lie one behind the other
};

enum Storage { F32, F64, S32, BYTE, PAIR };  // of the last two a table says what a bit pattern stands for

// What is known of C: `product` is that of A and all columns of B, `size` that of their magnitudes, or the product again; `rows`
// and `columns` hold the largest magnitudes of A's rows and B's columns, or are null.
struct Known {
    const double *product, *size, *rows, *columns;
    const void *old, *result;
    const double* numbers;
};

// Of C before the launch and of an epilogue's tensors one that a step reads: elements of its rows, columns and matrices lie
// so far apart, 0 where all have the same.
struct Operand {
    const void* first;
    const double* numbers;
    long long storage, row, column, matrix;
};

enum Operation {
    CONSTANT, ACC, ACC2, ACC3, ACC4, OPERAND, SUM, NEGATED, TIMES, OVER, TO_FLOAT,
    INT_PLUS, INT_MINUS, INT_TIMES, INT_NEGATED,
    RELU, GELU, GELU_TANH, SILU, SIGMOID, TANH, ERF, EXP, ABS, MIN, MAX, CLAMP
};

// What it takes are the results of `count` earlier steps, whose numbers stand in a list from `first` on.
struct Step {
    long long operation, first, count, operand, of_x;
    double value, bound;  // see gemmgen/run/acceptance.py
};

constexpr int MOST_STEPS = 48;

struct Epilogue {
    const Operand* operands;
    const Step* steps;
    const long long* of;
};

struct Element {
    unsigned long long bits;
    double got, value, bound;
};

__device__ unsigned long long stored(const void* matrix, long long place, long long storage) {
    switch (storage) {
        case F64: return static_cast<const unsigned long long*>(matrix)[place];
        case BYTE: return static_cast<const unsigned char*>(matrix)[place];
        case PAIR: return static_cast<const unsigned short*>(matrix)[place];
        default: return static_cast<const unsigned*>(matrix)[place];
    }
}

__device__ double number_of(unsigned long long bits, long long storage, const double* numbers) {
    switch (storage) {
        case F32: return __uint_as_float((unsigned)bits);
        case F64: return __longlong_as_double((long long)bits);
        case S32: return (int)(unsigned)bits;
        default: return numbers[bits];
    }
}

// The number of C's type nearest to x, ties to even.
__device__ double nearest(double x, const Shape& shape, const Format& format) {
    if (shape.storage == F64) return x;
    if (shape.storage == F32) return __double2float_rn(x);
    double rounded = x;
    if (shape.whole) rounded = rint(x);
    else if (isfinite(x)) {
        int exponent;
        frexp(x, &exponent);
        const int step = max(exponent - 1, (int)format.min_exponent) - ((int)format.precision - 1);
        rounded = ldexp(rint(ldexp(x, -step)), step);
    }
    if (isnan(rounded)) return rounded;
    if (shape.saturates) return fmin(fmax(rounded, format.least), format.largest);
    return fabs(rounded) > format.largest ? copysign(1.0 / 0.0, rounded) : rounded;
}

__device__ double wrapped(double x) { return (int)(unsigned)(long long)x; }

__device__ double bound_of(const Rule& rule, double sum, double size, double terms, double largest) {
    const double spread = fmin(size, sqrt(largest) * sqrt(size));
    return rule.of_terms * terms + rule.of_largest * largest + rule.least + rule.of_sum * fabs(sum) +
           rule.of_spread * spread + fmin(rule.of_size * size, rule.of_size_spread * spread);
}

// A number of a kernel that may be off by `bound`; NaN with an infinite one where any number is right.
struct Bounded {
    double value, bound;
};

__device__ double infinity() { return 1.0 / 0.0; }

__device__ bool doubtful(Bounded x) { return isnan(x.value) && isinf(x.bound); }

__device__ bool may_vanish(Bounded x) { return x.bound > 0.0 && fabs(x.value) <= x.bound; }

__device__ bool may_overflow(Bounded x) { return isfinite(x.value) && isinf(x.bound); }

// NaN and infinities are what they are, not near it; what f32 cannot hold is infinite in a kernel.
__device__ Bounded finite(double value, double bound, const Rule& rule) {
    if (fabs(value) - bound > rule.most) value = copysign(infinity(), value);
    if (isnan(bound) || fabs(value) + bound > rule.most) bound = infinity();
    return {value, isfinite(value) ? bound : 0.0};
}

__device__ Bounded rounded(double value, double inherited, const Rule& rule) {
    const bool held = inherited == 0.0 && (double)__double2float_rn(value) == value;
    return finite(value, inherited + (held ? 0.0 : (fabs(value) + inherited) * rule.rounding + rule.tiny), rule);
}

__device__ Bounded doubting(Bounded result, bool doubt) { return doubt ? Bounded{0.0 / 0.0, infinity()} : result; }

__device__ Bounded plus(Bounded a, Bounded b, const Rule& rule) {
    const bool opposed = (may_overflow(a) && (may_overflow(b) || isinf(b.value))) || (isinf(a.value) && may_overflow(b));
    const Bounded sum = rounded(__dadd_rn(a.value, b.value), a.bound + b.bound, rule);
    return doubting(sum, opposed || doubtful(a) || doubtful(b));
}

// May overflow, or is infinite, and meets what may be 0.
__device__ bool meets_zero(Bounded a, Bounded b) {
    return (isinf(a.value) && may_vanish(b)) || (may_overflow(a) && (may_vanish(b) || b.value == 0.0));
}

__device__ Bounded times(Bounded a, Bounded b, const Rule& rule) {
    const double inherited = fabs(b.value) * a.bound + (b.bound != 0.0 ? (fabs(a.value) + a.bound) * b.bound : 0.0);
    const Bounded product = rounded(__dmul_rn(a.value, b.value), inherited, rule);
    return doubting(product, meets_zero(a, b) || meets_zero(b, a) || doubtful(a) || doubtful(b));
}

__device__ Bounded over(Bounded a, Bounded b, const Rule& rule) {
    const double value = a.value / b.value;
    const Bounded quotient = rounded(value, (a.bound + fabs(value) * b.bound) / (fabs(b.value) - b.bound), rule);
    return doubting(quotient, doubtful(a) || doubtful(b));
}

__device__ double sigmoid(double x) { return 1.0 / (1.0 + exp(-x)); }

__device__ double applied(long long function, const double (&x)[3]) {
    switch (function) {
        case RELU: return x[0] < 0.0 ? 0.0 : x[0];
        case GELU: return x[0] < -40.0 ? 0.0 : 0.5 * x[0] * (1.0 + erf(0.7071067811865476 * x[0]));
        case GELU_TANH: return x[0] * sigmoid(1.5957691216057308 * (x[0] + 0.044715 * x[0] * x[0] * x[0]));
        case SILU: return x[0] * sigmoid(x[0]);
        case SIGMOID: return sigmoid(x[0]);
        case TANH: return tanh(x[0]);
        case ERF: return erf(x[0]);
        case EXP: return exp(x[0]);
        case ABS: return fabs(x[0]);
        case MIN: return fmin(x[0], x[1]);
        case MAX: return fmax(x[0], x[1]);
        default: return x[0] < x[1] ? x[1] : x[0] > x[2] ? x[2] : x[0];
    }
}

// The largest derivative, up to sign, from `low` to `high`.
__device__ double slope(long long function, double low, double high) {
    const double nearest_to_zero = fmax(fmax(low, -high), 0.0);
    switch (function) {
        case RELU: return high > 0.0 ? 1.0 : 0.0;
        case GELU: return high < -0.7518 ? 1.13 - 1.0 : 1.13;
        case GELU_TANH: return high < -0.7525 ? 1.13 - 1.0 : 1.13;
        case SILU: return high < -1.2785 ? 1.1 - 1.0 : 1.1;
        case SIGMOID: { const double value = sigmoid(-nearest_to_zero); return value * (1.0 - value); }
        case TANH: { const double value = cosh(nearest_to_zero); return 1.0 / (value * value); }
        case ERF: return 1.1283791670955126 * exp(-nearest_to_zero * nearest_to_zero);
        case EXP: return exp(high);
        default: return 1.0;
    }
}

__device__ Bounded call(const Step& step, const Bounded (&arguments)[3], const Rule& rule) {
    const double x[3] = {arguments[0].value, arguments[1].value, arguments[2].value};
    const double value = applied(step.operation, x);
    double widest = arguments[0].bound;
    bool doubt = (step.of_x && may_overflow(arguments[0])) || doubtful(arguments[0]);
    for (int i = 1; i < step.count; ++i) {
        widest = fmax(widest, arguments[i].bound);
        doubt = doubt || doubtful(arguments[i]);
    }
    const double inherited = widest > 0.0 ? widest * slope(step.operation, x[0] - widest, x[0] + widest) : 0.0;
    const double unit = step.of_x ? fabs(x[0]) + arguments[0].bound : fabs(value) + inherited;
    const bool limit = step.bound > 0.0 && isinf(x[0]);  // which libraries return exactly; else off as of 1
    const double own = step.bound > 0.0 ? step.value * unit + step.bound : 0.0;
    return doubting(finite(value, limit ? (step.of_x ? step.value + step.bound : 0.0) : inherited + own, rule), doubt);
}

// The largest power of two that x is a multiple of: infinite of 0.
__device__ double lowest_bit(double x) {
    int exponent;
    const long long bits = (long long)ldexp(frexp(x, &exponent), 53);
    return bits == 0 ? infinity() : ldexp((double)(bits & -bits), exponent - 53);
}

// Of three terms and more in any order: a partial sum is no larger than all terms of one sign together. Where none rounds
// in this order one may in another, unless all are few multiples of one number.
__device__ Bounded sum_of(const Step& step, const long long* of, const Bounded* results, const Rule& rule) {
    Bounded sum = results[of[0]];
    double size = fabs(sum.value) + sum.bound;
    for (int i = 1; i < step.count; ++i) {
        sum = plus(sum, results[of[i]], rule);
        size += fabs(results[of[i]].value) + results[of[i]].bound;
    }
    if (step.count < 3 || !isfinite(sum.value)) return sum;
    double last = sum.bound;
    if (!(sum.bound > 0.0)) {
        double unit = infinity();
        for (int i = 0; i < step.count; ++i) unit = fmin(unit, lowest_bit(results[of[i]].value));
        if (size * rule.reordering < unit) return sum;
        last = fabs(sum.value) * rule.rounding + rule.tiny;
    }
    const double bound = last + (step.count - 2) * rule.reordering * ((size + fabs(sum.value)) / 2.0);
    return {sum.value, fabs(sum.value) + bound > rule.most ? infinity() : bound};
}

__device__ double wrapped_product(double a, double b) {
    return (int)(unsigned)((unsigned long long)(long long)a * (unsigned long long)(long long)b);
}

// A sum over K as a kernel's accumulator holds it; `column` is one of B's.
__device__ Bounded accumulator(const Known& known, long long matrix, long long row, long long column, const Rule& rule,
                               const Shape& shape) {
    const long long columns = shape.products * shape.columns, at = (matrix * shape.rows + row) * columns + column;
    const double sum = shape.wraps ? wrapped(known.product[at]) : known.product[at];
    if (shape.exact || !isfinite(sum)) return {sum, 0.0};
    const double largest = known.rows ? known.rows[matrix * shape.rows + row] * known.columns[matrix * columns + column] : 0.0;
    return {sum, bound_of(rule, sum, known.size[at], known.size[at], largest)};
}

// What the epilogue makes of an element of C.
__device__ Bounded behind(const Epilogue& epilogue, const Known& known, long long matrix, long long row, long long column,
                          const Rule& rule, const Shape& shape) {
    Bounded results[MOST_STEPS];
    for (int number = 0; number < shape.steps; ++number) {
        const Step& step = epilogue.steps[number];
        const long long* const of = epilogue.of + step.first;
        Bounded taken[3] = {};
        for (int i = 0; i < 3 && i < step.count; ++i) taken[i] = results[of[i]];
        Bounded& result = results[number];
        switch (step.operation) {
            case CONSTANT: result = {step.value, step.bound}; break;
            case ACC: result = accumulator(known, matrix, row, column, rule, shape); break;
            case ACC2: case ACC3: case ACC4:
                result = accumulator(known, matrix, row, (step.operation - ACC) * shape.columns + column, rule, shape);
                break;
            case OPERAND: {
                const Operand& from = epilogue.operands[step.operand];
                const long long place = matrix * from.matrix + row * from.row + column * from.column;
                result = {number_of(stored(from.first, place, from.storage), from.storage, from.numbers), 0.0};
                break;
            }
            case SUM: result = sum_of(step, of, results, rule); break;
            case NEGATED: result = {-taken[0].value, taken[0].bound}; break;
            case TIMES: result = times(taken[0], taken[1], rule); break;
            case OVER: result = over(taken[0], taken[1], rule); break;
            case TO_FLOAT: result = rounded(taken[0].value, 0.0, rule); break;
            case INT_PLUS: result = {wrapped(taken[0].value + taken[1].value), 0.0}; break;
            case INT_MINUS: result = {wrapped(taken[0].value - taken[1].value), 0.0}; break;
            case INT_TIMES: result = {wrapped_product(taken[0].value, taken[1].value), 0.0}; break;
            case INT_NEGATED: result = {wrapped(-taken[0].value), 0.0}; break;
            default: result = call(step, taken, rule);
        }
    }
    return results[shape.steps - 1];
}

__device__ Element look(long long at, const Known& known, const Rule& rule, const Shape& shape, const Epilogue& epilogue) {
    const long long column = at % shape.columns, row = at / shape.columns % shape.rows;
    const long long matrix = at / shape.columns / shape.rows;
    const long long place = matrix * shape.stride + row * shape.ld + column;
    Element element;
    element.bits = stored(known.result, place, shape.storage);
    element.got = number_of(element.bits, shape.storage, known.numbers);
    element.bound = 0.0;
    if (shape.steps > 0) {
        const Bounded result = behind(epilogue, known, matrix, row, column, rule, shape);
        element.value = result.value;
        element.bound = result.bound;
        return element;
    }
    const bool reads = rule.beta != 0.0;
    const double old = reads ? number_of(stored(known.old, place, shape.storage), shape.storage, known.numbers) : 0.0;
    const double sum = shape.wraps ? wrapped(known.product[at]) : known.product[at];
    if (shape.integer) {
        const long long scaled = (long long)rule.alpha * (long long)sum + (reads ? (long long)rule.beta * (long long)old : 0);
        element.value = (int)(unsigned)scaled;
        return element;
    }
    const double product = __dmul_rn(rule.alpha, sum), added = reads ? __dmul_rn(rule.beta, old) : 0.0;
    element.value = reads ? __dadd_rn(product, added) : product;
    if (shape.exact || !isfinite(element.value)) return element;
    const double size = shape.wraps ? fabs(sum) : known.size[at];
    const double largest =
        known.rows ? known.rows[matrix * shape.rows + row] * known.columns[matrix * shape.columns + column] : 0.0;
    element.bound = bound_of(rule, sum, size, fabs(rule.alpha) * size + fabs(added), largest);
    return element;
}

// |got - wanted|; 0 where both are NaN or the same infinity, and NaN or infinite where one of them is.
__device__ double error(double got, double wanted) {
    return got == wanted || (isnan(got) && isnan(wanted)) ? 0.0 : fabs(got - wanted);
}

__device__ bool right(const Element& element, const Shape& shape, const Format& format) {
    const double got = element.got, value = element.value, bound = element.bound;
    if (doubtful({value, bound})) return true;
    if (shape.immediate) {
        const double wanted = shape.unrounded ? value : nearest(value, shape, format);
        return error(got, wanted) <= bound || error(got, value) <= bound;
    }
    if (isnan(value)) return shape.whole || isnan(got);  // what NaN becomes as an integer is not said
    return nearest(value - bound, shape, format) <= got && got <= nearest(value + bound, shape, format);
}

// How far off the result was at least before it was stored, over its bound.
__device__ double ratio(const Element& element, const Shape& shape, const Format& format) {
    if (!(element.bound > 0.0) || doubtful({element.value, element.bound})) return 0.0;
    if (shape.unrounded) return error(element.got, element.value) / element.bound;
    const double wanted = nearest(element.value, shape, format);
    const double off = fabs((element.got + wanted) / 2 - element.value);
    return element.got == wanted || !isfinite(off) ? 0.0 : off / element.bound;
}

// found: elements that were looked at, wrong ones, and the bits of the largest ratio and of the largest finite bound.
extern "C" __global__ void __launch_bounds__(256)
    judge(const Known* known, const Rule* rule, const Shape* shape, const Format* format, const Operand* operands,
          const Step* steps, const long long* of, unsigned long long* found) {
    const Epilogue epilogue = {operands, steps, of};
    const long long threads = (long long)gridDim.x * blockDim.x, count = shape->batch * shape->rows * shape->columns;
    unsigned long long seen = 0, wrong = 0;
    double worst = 0.0, largest = 0.0;
    for (long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x; at < count; at += threads) {
        const Element element = look(at, *known, *rule, *shape, epilogue);
        ++seen;
        if (!right(element, *shape, *format)) ++wrong;
        worst = fmax(worst, ratio(element, *shape, *format));
        if (isfinite(element.bound)) largest = fmax(largest, element.bound);
    }
    if (seen == 0) return;
    atomicAdd(found, seen);
    if (wrong != 0) atomicAdd(found + 1, wrong);
    atomicMax(found + 2, (unsigned long long)__double_as_longlong(worst));  // of numbers that are not negative
    atomicMax(found + 3, (unsigned long long)__double_as_longlong(largest));
}

// The elements at `places`, counted as the products lie, for the host to look at.
extern "C" __global__ void __launch_bounds__(256)
    sample(const Known* known, const Rule* rule, const Shape* shape, const Format*, const Operand* operands,
           const Step* steps, const long long* of, const long long* places, long long count, unsigned long long* bits,
           double* values, double* bounds) {
    const Epilogue epilogue = {operands, steps, of};
    const long long threads = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += threads) {
        const Element element = look(places[i], *known, *rule, *shape, epilogue);
        bits[i] = element.bits;
        values[i] = element.value;
        bounds[i] = element.bound;
    }
}
