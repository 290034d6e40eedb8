/*# Barriers in shared memory that count arrivals, and bytes that arrive by TMA. `arrive`: another way to arrive, between. #*/
//% macro mbarrier(arrive="")
// An mbarrier counts arrivals and bytes. Its phase completes when as many arrivals as it was initialised with have come,
// and all bytes that it was told to expect; the next phase begins at once. One thread initialises it. The fence makes
// that visible to TMA and to the cluster; a barrier of all threads comes before any use.
__device__ __forceinline__ void mbarrier_init(unsigned long long* barrier, int arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void fence_mbarrier_init()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
${ arrive }
// Arrive after adding to the bytes that the current phase expects.
__device__ __forceinline__ void mbarrier_arrive_expect_tx(unsigned long long* barrier, int bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;"
                 ::"r"(shared_address(barrier)), "r"(bytes) : "memory");
}

// Wait until the phase of this parity has completed. Phases count from 0; on a new barrier parity 1 passes, as if a phase
// -1 had completed. Parity only tells a phase from its neighbours: nobody may fall two phases behind.
__device__ __forceinline__ void mbarrier_wait(unsigned long long* barrier, unsigned parity)
{
    asm volatile("{ .reg .pred done;\n"
                 "again: mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 done, [%0], %1;\n"
                 "@done bra waited; bra again; waited: }" ::"r"(shared_address(barrier)), "r"(parity) : "memory");
}
//% endmacro

//% macro mbarrier_arrive()
// Arrive.
__device__ __forceinline__ void mbarrier_arrive(unsigned long long* barrier)
{
    asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}
//% endmacro
