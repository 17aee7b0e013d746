import type { ChaosReport, Fault } from "./run.ts"

/**
 * The kills with the other faults between them: per ten kills one freeze, one stop and one broken connection, per forty
 * one database restart.
 */
export const faultsFor = (kills: number): ReadonlyArray<Fault> => {
  const faults: Array<Fault> = []
  for (let kill = 1; kill <= kills; kill++) {
    faults.push("kill")
    if (kill % 10 === 3) faults.push("freeze")
    if (kill % 10 === 5) faults.push("break connections")
    if (kill % 10 === 7) faults.push("stop")
    if (kill % 40 === 9) faults.push("restart the database")
  }
  return faults
}

/** The guarantees that were broken, a sentence each. */
export const brokenGuarantees = (report: ChaosReport): ReadonlyArray<string> => [
  ...(report.lost > 0 ? [`${report.lost} of ${report.events} events were lost`] : []),
  ...(report.unexplained > 0
    ? [`${report.unexplained} of ${report.duplicates} duplicates were not in flight at a fault`]
    : []),
  ...(report.stale > 0 ? [`${report.stale} deliveries have inconsistent records`] : []),
  ...(report.crashes > 0 ? [`${report.crashes} processes exited without being told to`] : [])
]

/** The longest time from a death until other replicas own the shards, and from a stop until they do, in milliseconds. */
export interface Deadlines {
  readonly takeover: number
  readonly drain: number
}

const deadlines: Deadlines = { takeover: 15_000, drain: 1_000 }

/** The deadlines that were missed, a sentence each. */
export const missedDeadlines = (
  report: ChaosReport,
  { drain, takeover } = deadlines
): ReadonlyArray<string> => [
  ...(report.takeover > takeover ? [`taken over after ${Math.round(report.takeover)} ms`] : []),
  ...(report.drain > drain ? [`drained after ${Math.round(report.drain)} ms`] : [])
]
