/*# start: how several kernels of the launcher are launched. #*/
//% from "export/launcher/config.cu" import configuration with context
template <typename Kernel, typename... Arguments>
cudaError_t start(Kernel* kernel, size_t blocks, unsigned threads${ ", size_t shared_bytes" if out.launch.shared_bytes }${ ", bool early" if out.starts_early }, cudaStream_t stream, Arguments... arguments)
{
${ configuration("blocks", "threads", "shared_bytes", "early") }
    return started(cudaLaunchKernelEx(&config, kernel, arguments...));
}
