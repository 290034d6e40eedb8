//% from "copy/access.cu" import limits
//% macro cp_async()
// Start copying BYTES from global to shared memory; those past `valid_bytes` become zeros. No data passes a register.
template <int BYTES>
__device__ __forceinline__ void cp_async(void* shared, const void* global, int valid_bytes)
{
    const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
    if constexpr (BYTES == 16) {  // .cg goes past L1, which would only keep what shared memory keeps
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(global), "r"(valid_bytes) : "memory");
    } else {
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(global), "n"(BYTES), "r"(valid_bytes) : "memory");
    }
}

// Close the group of copies started since the last commit.
__device__ __forceinline__ void cp_async_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

// Wait until at most the N newest groups of this thread are under way.
template <int N>
__device__ __forceinline__ void cp_async_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}
//% endmacro

/*# Start the copies of the next k tile to `stage`, where it `exists`: `depth` of K is left from there on. #*/
//% macro start_tile(a, b, exists, depth, stage, note="")
if (${ exists }) {
    copy_a(a_tile, s${ limits(a, depth=depth) }, As[${ stage }]);
    copy_b(b_tile, s${ limits(b, depth=depth) }, Bs[${ stage }]);
}
cp_async_commit();${ note }
//% endmacro
