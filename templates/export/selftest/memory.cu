/*# Random numbers, and matrices with bands around them: on the host, and copied to the device. #*/
//% set int_p, p = ("int p, ", "p, ") if out.problem.batched else ("", "")
// The same numbers on every machine: distributions of standard libraries differ.
struct Random {
    std::mt19937_64 bits;

    int below(int end) { return int((bits() >> 32) * std::uint64_t(end) >> 32); }
//% if test.draws_integers
    int integer(int reach) { return below(2 * reach + 1) - reach; }
//% endif
//% if test.draws_uniform
    double uniform() { return double(std::int64_t(bits() >> ${ 64 - test.scalar.precision }) - (1LL << ${ test.scalar.precision - 1 })) / (1LL << ${ test.scalar.precision - 1 }); }
//% endif
};

template <typename... Values>
string text(const char* format, Values... values)
{
    char line[300];
    std::snprintf(line, sizeof line, format, values...);
    return line;
}

bool report(bool passed, const string& what, const string& result)
{
    std::printf("%s  %s: %s\n", passed ? "PASS" : "FAIL", what.c_str(), result.c_str());
    return passed;
}

void must(const string& what, cudaError_t status)
{
    if (status != cudaSuccess) std::exit(!report(false, what, cudaGetErrorString(status)));
}

// A copy in device memory.
std::shared_ptr<void> on_device(const void* data, size_t bytes)
{
    void* memory = nullptr;
    must("cudaMalloc", cudaMalloc(&memory, bytes));
    must("copy to the device", cudaMemcpy(memory, data, bytes, cudaMemcpyHostToDevice));
    return {memory, cudaFree};
}

// Matrices of rows x cols in memory: a band, lines with padding between them, a band.
template <typename Element>
struct Storage {
    // Elements of a band, behind which addresses have the promised alignment, no more.
    static constexpr size_t BAND = 1024 + std::max<size_t>(${ out.pointer_align }, sizeof(Element)) / sizeof(Element);

    Place at;
    vector<Element> elements;
    std::shared_ptr<void> device;

    template <typename Value>
    Storage(${ "int batch, " if out.problem.batched }int rows, int cols, Place at, Value value${ ", int filler = 0xff" if out.amaxes })
//% if out.problem.pointers
//% set last = "std::max(at(0, rows - 1, cols - 1), at(batch - 1, rows - 1, cols - 1))"
//% else
//% set last = "at(%srows - 1, cols - 1)" | format("batch - 1, " if out.problem.batched else "")
//% endif
        : at(at), elements(2 * BAND + (rows > 0 && cols > 0 ? ${ last } + 1 : 0))
    {
        std::memset(static_cast<void*>(elements.data()), ${ "filler" if out.amaxes else "0xff" }, bytes());  // 0xff: NaN, or the integer -1
//% if out.problem.batched
        for (int p = 0; p < batch; ++p)
            for (int row = 0; row < rows; ++row)
                for (int col = 0; col < cols; ++col) elements[BAND + at(p, row, col)] = encode<Element>(value());
//% else
        for (int row = 0; row < rows; ++row)
            for (int col = 0; col < cols; ++col) elements[BAND + at(row, col)] = encode<Element>(value());
//% endif
        device = on_device(elements.data(), bytes());
    }

    Element operator()(${ int_p }int row, int col) const { return elements[BAND + at(${ p }row, col)]; }
    size_t bytes() const { return elements.size() * sizeof(Element); }
    Element* first() const { return static_cast<Element*>(device.get()) + BAND; }  // on the device

    // What the device holds now.
    Storage from_device() const
    {
        Storage now = *this;
        must("copy from the device", cudaMemcpy(now.elements.data(), device.get(), bytes(), cudaMemcpyDeviceToHost));
        return now;
    }
};

//% if test.codes and out.halves
// Codes of 4 bits as they lie in memory, two to a byte, the first in its lower half: band, lines with padding, band.
struct Codes {
    static constexpr size_t BAND = 1024 + ${ out.pointer_align };  // bytes

    Place at;
    vector<std::uint8_t> held;
    std::shared_ptr<void> device;

    template <typename Value>
    Codes(int rows, int cols, Place at, Value value)
        : at(at), held(2 * BAND + (rows > 0 && cols > 0 ? at(rows - 1, cols - 1) / 2 + 1 : 0), std::uint8_t(0xff))
    {
        for (int row = 0; row < rows; ++row)
            for (int col = 0; col < cols; ++col) {
                const size_t i = at(row, col), shift = i % 2 * 4;
                std::uint8_t& pair = held[BAND + i / 2];
                pair = std::uint8_t((pair & ~(15 << shift)) | encode<std::uint8_t>(value()) << shift);
            }
        device = on_device(held.data(), held.size());
    }

    std::uint8_t operator()(int row, int col) const { return (held[BAND + at(row, col) / 2] >> (at(row, col) % 2 * 4)) & 15; }
    std::uint8_t* first() const { return static_cast<std::uint8_t*>(device.get()) + BAND; }  // on the device
};

//% endif
//% if out.problem.pointers
// Pointers to the matrices of a copy, on the device, too.
template <typename Element>
std::shared_ptr<void> pointers_to(const Storage<Element>& matrices, int batch)
{
    vector<Element*> pointers;
    for (int p = 0; p < batch; ++p) pointers.push_back(matrices.first() + matrices.at(p, 0, 0));
    return on_device(pointers.data(), pointers.size() * sizeof(Element*));
}

//% endif
