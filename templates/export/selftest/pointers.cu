/*# Where a launch's tensors are. #*/
// A pointer of whatever type the launcher takes.
struct Address {
    const void* at;

    template <typename T>
    operator T*() const { return static_cast<T*>(const_cast<void*>(at)); }
};

using Pointers = std::array<Address, ${ out.located | length }>;  // ${ out.located.values() | join(", ") }

