/*# Random numbers, and matrices with bands around them: on the host, and copied to the device. #*/
// SplitMix64: the same numbers on every machine.
struct Random {
    std::uint64_t state;

    std::uint64_t bits()
    {
        std::uint64_t z = state += 0x9e3779b97f4a7c15u;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        return z ^ (z >> 31);
    }

    int below(int end) { return int((bits() >> 32) * std::uint64_t(end) >> 32); }
//% if test.draws_integers
    int integer(int reach) { return below(2 * reach + 1) - reach; }
//% endif
//% if test.draws_uniform
    double uniform() { return double(std::int64_t(bits() >> ${ 64 - test.scalar.precision }) - (1LL << ${ test.scalar.precision - 1 })) / (1LL << ${ test.scalar.precision - 1 }); }
//% endif
};

void must(const char* what, cudaError_t status)
{
    if (status == cudaSuccess) return;
    std::printf("FAIL  %s: %s\n", what, cudaGetErrorString(status));
    std::exit(1);
}

// Matrices of rows x cols as they lie in memory: band, lines with padding between them, band.
template <typename Element>
struct Storage {
    // Of a band; leaves addresses the promised alignment, no more.
    static constexpr std::size_t BAND = 1024 + std::max<std::size_t>(${ out.pointer_align }, sizeof(Element)) / sizeof(Element);

    Place at;
    std::vector<Element> elements;

    template <typename Value>
    Storage(int batch, int rows, int cols, Place at, Value value${ ", int filler = 0xff" if out.amaxes })
        : at(at), elements(2 * BAND + (rows > 0 && cols > 0 ? ${ "std::max(at(0, rows - 1, cols - 1), at(batch - 1, rows - 1, cols - 1))" if out.pointers else "at(batch - 1, rows - 1, cols - 1)" } + 1 : 0))
    {
        std::memset(static_cast<void*>(elements.data()), ${ "filler" if out.amaxes else "0xff" }, bytes());  // 0xff: NaN, of integers -1
        for (int p = 0; p < batch; ++p)
            for (int row = 0; row < rows; ++row)
                for (int col = 0; col < cols; ++col) elements[BAND + at(p, row, col)] = encode<Element>(value());
    }

    Element operator()(int p, int row, int col) const { return elements[BAND + at(p, row, col)]; }
    std::size_t bytes() const { return elements.size() * sizeof(Element); }
};

// A Storage on the device.
template <typename Element>
struct DeviceCopy {
    void* memory = nullptr;

    explicit DeviceCopy(const Storage<Element>& host)
    {
        must("cudaMalloc", cudaMalloc(&memory, host.bytes()));
        must("copy to the device", cudaMemcpy(memory, host.elements.data(), host.bytes(), cudaMemcpyHostToDevice));
    }
    DeviceCopy(const DeviceCopy&) = delete;
    ~DeviceCopy() { cudaFree(memory); }

    Element* matrix() const { return static_cast<Element*>(memory) + Storage<Element>::BAND; }

    Storage<Element> read(Storage<Element> like) const
    {
        must("copy from the device", cudaMemcpy(like.elements.data(), memory, like.bytes(), cudaMemcpyDeviceToHost));
        return like;
    }
};

//% if out.pointers
// The array of pointers to a check's matrices, on the device.
template <typename Element>
struct DevicePointers {
    void* memory = nullptr;

    DevicePointers(const DeviceCopy<Element>& matrices, const Place& at, int batch)
    {
        std::vector<Element*> pointers;
        for (int p = 0; p < batch; ++p) pointers.push_back(matrices.matrix() + at(p, 0, 0));
        const std::size_t bytes = pointers.size() * sizeof(Element*);
        must("cudaMalloc", cudaMalloc(&memory, bytes));
        must("copy to the device", cudaMemcpy(memory, pointers.data(), bytes, cudaMemcpyHostToDevice));
    }
    DevicePointers(const DevicePointers&) = delete;
    ~DevicePointers() { cudaFree(memory); }

    Element* const* array() const { return static_cast<Element* const*>(memory); }
};

//% endif
//% if out.parts
// Device memory that grows with the shapes, and is full of ones: a launch sets up what it needs there.
void* workspace_of(std::size_t bytes)
{
    static void* memory = nullptr;
    static std::size_t reserved = 0;
    if (bytes > reserved) {
        cudaFree(memory);
        must("cudaMalloc", cudaMalloc(&memory, bytes));
        reserved = bytes;
    }
    must("cudaMemsetAsync", cudaMemsetAsync(memory, 0xff, bytes, nullptr));
    return memory;
}

//% endif
