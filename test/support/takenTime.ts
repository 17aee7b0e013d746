import { performance } from "node:perf_hooks"

/**
 * Starts to measure how many milliseconds other programs take from this thread: those in which it is not idle and has no processor. On a
 * busy machine, a time limit may be exceeded by as much.
 */
export const startTakenTime = (): (() => number) => {
  const before = process.threadCpuUsage()
  const loop = performance.eventLoopUtilization()
  return () => {
    const { active } = performance.eventLoopUtilization(loop)
    const { system, user } = process.threadCpuUsage(before)
    return Math.max(0, active - (user + system) / 1_000)
  }
}
