/*# Barriers in shared memory that count arrivals, and bytes that arrive by TMA. #*/
//% macro mbarrier(arrives=true)
#ifdef __CUDACC__
// An mbarrier goes through phases. One ends when `arrivals` threads have arrived and all bytes have landed that it was
// told to expect; then the next begins. One thread initialises it, and fences, so that TMA and other blocks see that, too;
// a barrier of the block comes before any use.
__device__ __forceinline__ void mbarrier_init(unsigned long long* barrier, int arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void fence_mbarrier_init()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

//% if arrives
// Arrive; and arrive, after the phase has been told to expect so many bytes more.
__device__ __forceinline__ void mbarrier_arrive(unsigned long long* barrier)
{
    asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}
//% else
// Arrive, after the phase has been told to expect so many bytes more.
//% endif
__device__ __forceinline__ void mbarrier_arrive_expect_tx(unsigned long long* barrier, int bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;"
                 ::"r"(shared_address(barrier)), "r"(bytes) : "memory");
}

// Wait for the end of a phase of this parity: phases are even and odd by turns. The first has parity 0; the one before
// it, of parity 1, counts as complete.
__device__ __forceinline__ void mbarrier_wait(unsigned long long* barrier, unsigned parity)
{
    asm volatile("{ .reg .pred done;\n"
                 "again: mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 done, [%0], %1;\n"
                 "@done bra waited; bra again; waited: }" ::"r"(shared_address(barrier)), "r"(parity) : "memory");
}
#endif  // __CUDACC__
//% endmacro
