/*# Where a launch's tensors are. #*/
// A pointer of whatever type the launcher takes.
struct Address {
    std::uintptr_t at;

    template <typename T>
    operator T*() const { return reinterpret_cast<T*>(at); }
};

using Pointers = std::array<Address, ${ out.located | length }>;  // ${ out.located.values() | join(", ") }

