/** Shared by all benchmarks: interleaved rounds, medians with their spread, limits, and a description of the machine. */
import { cpus, totalmem } from "node:os"
import { readFileSync } from "node:fs"

/** The median. */
export const median = (values: ReadonlyArray<number>): number => quantile(values, 0.5)

/** The `q` quantile, `q` from 0 to 1. */
export const quantile = (values: ReadonlyArray<number>, q: number): number => {
  const sorted = values.toSorted((left, right) => left - right)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))] ?? Number.NaN
}

/**
 * Runs every side once per round, interleaved, so that a disturbance of the machine affects all sides alike. Returns one value per side
 * and measured round; the first `warmUp` rounds are discarded.
 */
export const alternate = async (
  sides: ReadonlyArray<() => Promise<number>>,
  options: { readonly warmUp: number; readonly rounds: number }
): Promise<ReadonlyArray<ReadonlyArray<number>>> => {
  const results = sides.map(() => new Array<number>())
  for (let round = 0; round < options.warmUp + options.rounds; round++) {
    // Every second round runs in reverse order, so that no side always follows the same one.
    const order = sides.map((_, index) => (round % 2 === 0 ? index : sides.length - 1 - index))
    for (const index of order) {
      const value = await sides[index]?.()
      if (round >= options.warmUp && value !== undefined) results[index]?.push(value)
    }
  }
  return results
}

/**
 * Open-loop load: starts calls at an even rate, whether or not earlier ones have completed, and returns the latency of each in
 * milliseconds from when it was due. A closed loop, which waits for answers, would hide slow ones (coordinated omission).
 */
export const evenly = async (
  perSecond: number,
  seconds: number,
  call: () => Promise<unknown>
): Promise<ReadonlyArray<number>> => {
  const times: Array<number> = []
  const under: Array<Promise<void>> = []
  const begin = performance.now()
  for (let due = begin; due < begin + seconds * 1_000; due += 1_000 / perSecond) {
    const early = due - performance.now()
    if (early > 1) await new Promise((resolve) => setTimeout(resolve, early))
    under.push(call().then(() => void times.push(performance.now() - due)))
  }
  await Promise.all(under)
  return times
}

/** One line of output: median, lowest and highest. */
export const line = (what: string, values: ReadonlyArray<number>, unit: string): string =>
  `${what.padEnd(44)} ${median(values).toFixed(1).padStart(10)} ${unit.padEnd(5)}   (${Math.min(...values).toFixed(1)} to ${Math.max(...values).toFixed(1)})`

/**
 * The units of goals: ratios to another side of the same run, sizes and counts. A time is the machine's as much as the program's, so times are
 * printed only.
 */
type GoalUnit = "%" | "times" | "MB" | "KB" | "spans"

/** Whether a limit holds, as the end of a line. A missed limit makes the process exit with code 1. */
const verdict = (holds: boolean): string => {
  if (!holds) process.exitCode = 1
  return holds ? "holds" : "MISSED"
}

/** One line of output with an upper limit on the median. */
export const atMost = (what: string, values: ReadonlyArray<number>, limit: number, unit: GoalUnit): string =>
  `${line(what, values, unit)}   at most ${limit}: ${verdict(median(values) <= limit)}`

/** One line of output with a lower limit on the median. */
export const atLeast = (what: string, values: ReadonlyArray<number>, limit: number, unit: GoalUnit): string =>
  `${line(what, values, unit)}   at least ${limit}: ${verdict(median(values) >= limit)}`

/** The figures of one side by those of another in the same round, in percent. */
export const percentOf = (
  some: ReadonlyArray<number>,
  others: ReadonlyArray<number>
): ReadonlyArray<number> => some.map((value, round) => (100 * value) / (others[round] ?? Number.NaN))

/** Processors, memory and Node version of this machine. */
export const machine = (): string => {
  const [first] = cpus()
  return `${cpus().length} × ${first?.model ?? "unknown processor"}, ${Math.round(totalmem() / 2 ** 30)} GiB, Node ${process.version}`
}

/**
 * Steal time since boot, in seconds: processor time that the host gave to other virtual machines while this one had work. Linux only,
 * else NaN. It explains outliers: if the host takes both processors away for 20 ms, no program on them answers within 10 ms.
 */
const stolenSeconds = (): number => {
  try {
    return Number(/^cpu +(?:\d+ +){7}(\d+)/.exec(readFileSync("/proc/stat", "utf8"))?.[1]) / 100
  } catch {
    return Number.NaN
  }
}

/** Processor time that all programs of this machine have used since boot, and steal time, in seconds. Linux only, else NaN. */
export const machineSeconds = (): number => {
  try {
    const fields = /^cpu +(.*)/.exec(readFileSync("/proc/stat", "utf8"))?.[1]?.split(" ").map(Number) ?? []
    const [user = NaN, nice = NaN, system = NaN, , , irq = NaN, softirq = NaN, steal = NaN] = fields
    return (user + nice + system + irq + softirq + steal) / 100
  } catch {
    return Number.NaN
  }
}

/** Rounds of `evenly`, each with its latency quantiles and the share of processor time stolen during it. */
export const delayRounds = (perSecond: number, seconds: number, call: () => Promise<unknown>) => {
  const rounds: Array<{ readonly p50: number; readonly p99: number; readonly stolen: number }> = []
  return {
    /** Runs one round and returns its 99th percentile in milliseconds. */
    round: async (): Promise<number> => {
      const before = stolenSeconds()
      const times = await evenly(perSecond, seconds, call)
      const stolen = (100 * (stolenSeconds() - before)) / (seconds * cpus().length)
      const p99 = quantile(times, 0.99)
      rounds.push({ p50: quantile(times, 0.5), p99, stolen })
      return p99
    },
    /** Figures of the rounds after the first `warmUp`. `calm` has the half of them with the least steal time. */
    measured: (warmUp: number) => {
      const all = rounds.slice(warmUp)
      const calm = all
        .toSorted((left, right) => left.stolen - right.stolen)
        .slice(0, Math.ceil(all.length / 2))
      return {
        p50: all.map(({ p50 }) => p50),
        p99: all.map(({ p99 }) => p99),
        stolen: all.map(({ stolen }) => stolen),
        calm: { p99: calm.map(({ p99 }) => p99), stolen: calm.map(({ stolen }) => stolen) }
      }
    }
  }
}

/** Resident memory of a process in MB. Linux only, else NaN. */
export const residentMegabytes = (pid: number): number => kilobytesOf(pid, "VmRSS") / 1024

/** Peak resident memory of a process in MB. Linux only, else NaN. */
export const peakMegabytes = (pid: number): number => kilobytesOf(pid, "VmHWM") / 1024

const kilobytesOf = (pid: number, field: "VmRSS" | "VmHWM"): number => {
  try {
    const status = readFileSync(`/proc/${pid}/status`, "utf8")
    return Number(new RegExp(`${field}:\\s+(\\d+) kB`).exec(status)?.[1])
  } catch {
    return Number.NaN
  }
}

/** Processor time used by a process so far, in seconds. Linux only, else NaN. */
export const processorSeconds = (pid: number): number => {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? []
    return (Number(fields[11]) + Number(fields[12])) / 100
  } catch {
    return Number.NaN
  }
}
