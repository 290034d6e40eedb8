// Holds C against A * B in double precision, element by element: see gemmgen/run/judging.py. C's matrices lie `stride`
// elements apart with `ld` elements between rows; the products lie one behind the other without padding.

// Numbers of a rule, in the order of its record.
struct Rule {
    double alpha, beta;
    double of_terms, of_largest, least;
    double of_sum, of_spread, of_size, of_size_spread;
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
};

enum Storage { F32, F64, S32, BYTE, PAIR };  // of the last two a table says what a bit pattern stands for

// What is known of C: `size` is the product of magnitudes, or the product again; `rows` and `columns` hold the largest
// magnitudes of A's rows and B's columns, or are null.
struct Known {
    const double *product, *size, *rows, *columns;
    const void *old, *result;
    const double* numbers;
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

__device__ double number(unsigned long long bits, const Shape& shape, const double* numbers) {
    switch (shape.storage) {
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

__device__ Element look(long long at, const Known& known, const Rule& rule, const Shape& shape) {
    const long long column = at % shape.columns, row = at / shape.columns % shape.rows;
    const long long matrix = at / shape.columns / shape.rows;
    const long long place = matrix * shape.stride + row * shape.ld + column;
    const bool reads = rule.beta != 0.0;
    const double old = reads ? number(stored(known.old, place, shape.storage), shape, known.numbers) : 0.0;
    const double sum = shape.wraps ? wrapped(known.product[at]) : known.product[at];
    Element element;
    element.bits = stored(known.result, place, shape.storage);
    element.got = number(element.bits, shape, known.numbers);
    element.bound = 0.0;
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
    if (shape.immediate) {
        const double wanted = shape.unrounded ? value : nearest(value, shape, format);
        return error(got, wanted) <= bound || error(got, value) <= bound;
    }
    if (isnan(value)) return isnan(got);
    return nearest(value - bound, shape, format) <= got && got <= nearest(value + bound, shape, format);
}

// How far off the result was at least before it was stored, over its bound.
__device__ double ratio(const Element& element, const Shape& shape, const Format& format) {
    if (!(element.bound > 0.0)) return 0.0;
    if (shape.unrounded) return error(element.got, element.value) / element.bound;
    const double wanted = nearest(element.value, shape, format);
    const double off = fabs((element.got + wanted) / 2 - element.value);
    return element.got == wanted || !isfinite(off) ? 0.0 : off / element.bound;
}

// found: elements that were looked at, wrong ones, and the bits of the largest ratio and of the largest finite bound.
extern "C" __global__ void __launch_bounds__(256)
    judge(const Known* known, const Rule* rule, const Shape* shape, const Format* format, unsigned long long* found) {
    const long long threads = (long long)gridDim.x * blockDim.x, count = shape->batch * shape->rows * shape->columns;
    unsigned long long seen = 0, wrong = 0;
    double worst = 0.0, largest = 0.0;
    for (long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x; at < count; at += threads) {
        const Element element = look(at, *known, *rule, *shape);
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
    sample(const Known* known, const Rule* rule, const Shape* shape, const long long* places, long long count,
           unsigned long long* bits, double* values, double* bounds) {
    const long long threads = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += threads) {
        const Element element = look(places[i], *known, *rule, *shape);
        bits[i] = element.bits;
        values[i] = element.value;
        bounds[i] = element.bound;
    }
}
