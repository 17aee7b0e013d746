/** What every benchmark here shares: rounds that alternate, medians with their spread, and the machine by name. */
import { cpus, totalmem } from "node:os"
import { readFileSync } from "node:fs"

/** The value in the middle. */
export const median = (values: ReadonlyArray<number>): number => quantile(values, 0.5)

/** The value below which the share `q` of all lies. */
export const quantile = (values: ReadonlyArray<number>, q: number): number => {
  const sorted = values.toSorted((left, right) => left - right)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))] ?? Number.NaN
}

/** Runs each side once a round, in turn, so that what disturbs the machine disturbs all; the first rounds warm up. */
export const alternate = async (
  sides: ReadonlyArray<() => Promise<number>>,
  options: { readonly warmUp: number; readonly rounds: number }
): Promise<ReadonlyArray<ReadonlyArray<number>>> => {
  const results = sides.map(() => new Array<number>())
  for (let round = 0; round < options.warmUp + options.rounds; round++) {
    // Each second round the other way about, so that no side always follows the same one.
    const order = sides.map((_, index) => (round % 2 === 0 ? index : sides.length - 1 - index))
    for (const index of order) {
      const value = await sides[index]?.()
      if (round >= options.warmUp && value !== undefined) results[index]?.push(value)
    }
  }
  return results
}

/**
 * How long each call took, in milliseconds from when it was due: so many a second, evenly, whether or not the ones before are answered.
 * Who waits for answers measures too little.
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

/** One line: median, lowest and highest. */
export const line = (what: string, values: ReadonlyArray<number>, unit: string): string =>
  `${what.padEnd(44)} ${median(values).toFixed(1).padStart(10)} ${unit}   (${Math.min(...values).toFixed(1)} to ${Math.max(...values).toFixed(1)})`

/** One sentence: a figure, and the most that it may be. */
export const limit = (what: string, values: ReadonlyArray<number>, most: number, unit: string): string => {
  const value = median(values)
  return `${what}: ${value.toFixed(1)} ${unit}, of ${most} ${unit} at most: ${value <= most ? "holds" : "DOES NOT HOLD"}`
}

/** The machine, as a reader needs to know it. */
export const machine = (): string => {
  const [first] = cpus()
  return `${cpus().length} × ${first?.model ?? "unknown processor"}, ${Math.round(totalmem() / 2 ** 30)} GiB, Node ${process.version}`
}

/**
 * Processor time that the host gave to other machines while this one had work, in seconds, since it started; Linux only, else NaN. Where
 * two virtual processors are taken away for 20 ms, no program on them answers in 10.
 */
const stolenSeconds = (): number => {
  try {
    return Number(/^cpu +(?:\d+ +){7}(\d+)/.exec(readFileSync("/proc/stat", "utf8"))?.[1]) / 100
  } catch {
    return Number.NaN
  }
}

/** Rounds of delays: what each gave, and how much of the processors' time was stolen meanwhile. */
export const delayRounds = (perSecond: number, seconds: number, call: () => Promise<unknown>) => {
  const rounds: Array<{ readonly p50: number; readonly p99: number; readonly stolen: number }> = []
  return {
    /** Answers with the 99th percentile, in milliseconds. */
    round: async (): Promise<number> => {
      const before = stolenSeconds()
      const times = await evenly(perSecond, seconds, call)
      const stolen = (100 * (stolenSeconds() - before)) / (seconds * cpus().length)
      const p99 = quantile(times, 0.99)
      rounds.push({ p50: quantile(times, 0.5), p99, stolen })
      return p99
    },
    /** What was measured after the first `warmUp` rounds; `calm`: in that half of them in which the least was stolen. */
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

/** Resident memory of a process, in MB; Linux only, else NaN. */
export const residentMegabytes = (pid: number): number => kilobytesOf(pid, "VmRSS") / 1024

/** The most that it ever was, likewise. */
export const peakMegabytes = (pid: number): number => kilobytesOf(pid, "VmHWM") / 1024

const kilobytesOf = (pid: number, field: "VmRSS" | "VmHWM"): number => {
  try {
    const status = readFileSync(`/proc/${pid}/status`, "utf8")
    return Number(new RegExp(`${field}:\\s+(\\d+) kB`).exec(status)?.[1])
  } catch {
    return Number.NaN
  }
}

/** Processor time a process has used, in seconds; Linux only, else NaN. */
export const processorSeconds = (pid: number): number => {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? []
    return (Number(fields[11]) + Number(fields[12])) / 100
  } catch {
    return Number.NaN
  }
}
