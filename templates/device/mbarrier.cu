/*# Barriers in shared memory that count arrivals, and bytes that arrive by TMA. #*/
//% macro mbarrier(arrives=true)
#ifdef __CUDACC__
// A barrier goes through phases. One ends when `arrivals` threads have arrived and all bytes have landed that it was told to
// expect; then the next begins. One thread calls this; fence_mbarrier_init and a barrier of the block come before any use.
__device__ __forceinline__ void mbarrier_init(unsigned long long* barrier, int arrivals)
{
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(barrier));
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(arrivals) : "memory");
}

// TMA, too, sees the barriers that this thread has initialised.
__device__ __forceinline__ void fence_mbarrier_init()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

//% if arrives
__device__ __forceinline__ void mbarrier_arrive(unsigned long long* barrier)
{
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(barrier));
    asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(at) : "memory");
}

//% endif
// Arrive, and let the phase expect so many bytes more.
__device__ __forceinline__ void mbarrier_arrive_expect_tx(unsigned long long* barrier, int bytes)
{
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(barrier));
    asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(bytes) : "memory");
}

// Wait for the end of a phase of this parity. Of a barrier's phases the first has parity 0; the one before it, of
// parity 1, counts as complete.
__device__ __forceinline__ void mbarrier_wait(unsigned long long* barrier, unsigned parity)
{
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(barrier));
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 done, [%0], %1;\n"
        "@done bra waited;\n"
        "bra again;\n"
        "waited:\n"
        "}\n" ::"r"(at), "r"(parity)
        : "memory");
}
#endif  // __CUDACC__
//% endmacro
