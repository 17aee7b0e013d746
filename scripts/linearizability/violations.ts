import type { RunReport } from "./run.ts"

/** What a run has shown to be broken, a sentence each; the histories of objects are in `explanation`. */
export const violationsOf = ({
  answers,
  lateness,
  objects,
  streams,
  wrongRecords
}: RunReport): ReadonlyArray<string> => [
  ...objects.flatMap(({ object, verdict, visited }) => {
    switch (verdict) {
      case "Linearizable":
        return []
      case "Violation":
        return [`${object} is not linearizable`]
      case "Undecided":
        return [`${object} could not be checked: the search was given up after ${visited} configurations`]
    }
  }),
  ...streams.faults,
  ...wrongRecords,
  ...((lateness[0] ?? 0) < 0 ? [`a window ended ${-(lateness[0] ?? 0)} ms early`] : []),
  ...((answers["INTERNAL_ERROR"] ?? 0) > 0
    ? [`${answers["INTERNAL_ERROR"]} calls got an internal error`]
    : []),
  ...((answers["UNEXPECTED_RESPONSE"] ?? 0) > 0
    ? [`${answers["UNEXPECTED_RESPONSE"]} responses were not as the API describes them`]
    : [])
]

/** The figures of a run, a line each. */
export const summaryOf = ({
  answers,
  checkSeconds,
  faults,
  lateness,
  objects,
  proposals,
  seconds,
  streams
}: RunReport): ReadonlyArray<string> => {
  const sum = (of: (object: RunReport["objects"][number]) => number) =>
    objects.reduce((total, object) => total + of(object), 0)
  const operations = sum((object) => object.operations)
  const perMinute = (number: number) => Math.round((number * 60) / seconds)
  const late = (share: number) => lateness[Math.ceil(share * lateness.length) - 1] ?? 0
  const list = (counts: Readonly<Record<string, number>>) =>
    Object.entries(counts)
      .filter(([, number]) => number > 0)
      .map(([name, number]) => `${number} ${name}`)
      .join(", ")
  return [
    `${operations} operations on ${objects.length} objects in ${seconds.toFixed(0)} s (${perMinute(operations)} a minute), ${sum(({ lost }) => lost)} without an answer or optional`,
    `faults: ${list(faults)} (${perMinute(faults.kill)} kills a minute)`,
    `answers: ${list(answers)}`,
    `windows: ${lateness.length} ended or were about to, ${late(0.5)} ms late in the middle, at most ${late(1)} ms`,
    `proposals: ${proposals.made} made, ${proposals.used} used`,
    `streams: ${streams.events} events over ${streams.connections} connections`,
    `checked in ${checkSeconds.toFixed(2)} s, ${sum(({ visited }) => visited)} configurations, at most ${Math.max(...objects.map(({ visited }) => visited))} for one object`
  ]
}
