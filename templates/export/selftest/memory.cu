/*# Random numbers, and matrices with bands around them: on the host, and copied to the device. #*/
// The same numbers on every machine: the library's own distributions differ.
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
    std::shared_ptr<void> device;

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

    // Where the first element of a copy on the device is.
    Element* to_device()
    {
        void* memory = nullptr;
        must("cudaMalloc", cudaMalloc(&memory, bytes()));
        device.reset(memory, cudaFree);
        must("copy to the device", cudaMemcpy(memory, elements.data(), bytes(), cudaMemcpyHostToDevice));
        return static_cast<Element*>(memory) + BAND;
    }

    // What that copy holds now.
    Storage from_device() const
    {
        Storage now = *this;
        must("copy from the device", cudaMemcpy(now.elements.data(), device.get(), bytes(), cudaMemcpyDeviceToHost));
        return now;
    }
};

//% if out.pointers
// The same of an array of pointers to the matrices of a copy.
template <typename Element>
struct DevicePointers {
    std::shared_ptr<void> device;

    DevicePointers(Storage<Element>& matrices, int batch)
    {
        Element* const first = matrices.to_device();
        std::vector<Element*> pointers;
        for (int p = 0; p < batch; ++p) pointers.push_back(first + matrices.at(p, 0, 0));
        const std::size_t bytes = pointers.size() * sizeof(Element*);
        void* memory = nullptr;
        must("cudaMalloc", cudaMalloc(&memory, bytes));
        device.reset(memory, cudaFree);
        must("copy to the device", cudaMemcpy(memory, pointers.data(), bytes, cudaMemcpyHostToDevice));
    }
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
