/**
 * A task's dataset and the corrections of its runs: a rejected correction stays rejected, and a promoted one promoted; a promotion takes
 * exactly what was staged, if neither the dataset nor the staged set has changed since the preview, and makes the next
 * version of it; a repeated `Idempotency-Key` gets the first answer.
 *
 * A reviewer does not wait for a promotion, which may take minutes: what is staged while one runs stays staged.
 */
import { isAnswer, isRefusal, type Model } from "../Model.ts"

export type DatasetCall =
  | { readonly kind: "stage" | "reject" | "get"; readonly feedback: string }
  | { readonly kind: "preview" | "list versions" | "get task" }
  | {
      readonly kind: "promote"
      /** The newest version of the preview. */
      readonly base: string | null
      /** The corrections of the preview, sorted. */
      readonly staged: ReadonlyArray<string>
      readonly key: string | null
    }

/** A dataset version. */
export interface Version {
  readonly id: string
  readonly base: string | null
  readonly version: number
}

/** The status of a correction, with the version that it was promoted into. */
type Status = "pending" | "staged" | "rejected" | `promoted into ${string}`

export interface DatasetState {
  /** The versions, newest first. */
  readonly versions: ReadonlyArray<Version>
  readonly statuses: Readonly<Record<string, Status>>
  /** When the staging of each correction was answered. */
  readonly stagedUntil: Readonly<Record<string, number>>
  /** The answers of promotions under an `Idempotency-Key`. */
  readonly answers: Readonly<Record<string, string>>
}

const sortedStaged = ({ statuses }: DatasetState): ReadonlyArray<string> =>
  Object.keys(statuses)
    .filter((id) => statuses[id] === "staged")
    .toSorted()

const newestOf = ({ versions }: DatasetState): string | null => versions[0]?.id ?? null

/** Answers as the operations are recorded with them. */
export const datasetAnswers = {
  preview: (base: string | null, staged: ReadonlyArray<string>): string =>
    `${base ?? "no version"}, ${staged.length === 0 ? "nothing staged" : staged.join(" ")}`,
  promoted: ({ id, version }: Version, promoted: ReadonlyArray<string>): string =>
    `version ${version} ${id}: ${promoted.join(" ")}`,
  versions: (ids: ReadonlyArray<string>): string => ids.join(" "),
  status: (status: string, version: string | null): string =>
    version === null ? status : `${status} into ${version}`
}

/**
 * `versions`: all versions that exist at the end, from which the id of a version is known whose promotion was not
 * answered.
 */
export const datasetModel = (
  initial: Version | null,
  feedback: ReadonlyArray<string>,
  versions: ReadonlyArray<Version>
): Model<DatasetState, DatasetCall> => ({
  initial: {
    versions: initial === null ? [] : [initial],
    statuses: Object.fromEntries(feedback.map((id) => [id, "pending" as const])),
    stagedUntil: {},
    answers: {}
  },
  apply: (state, operation) => {
    const { call } = operation
    const answers = (text: string, next: DatasetState = state) =>
      isAnswer(operation, text) ? next : undefined
    const withStatus = (id: string, status: Status): DatasetState => ({
      ...state,
      statuses: { ...state.statuses, [id]: status }
    })
    switch (call.kind) {
      case "stage": {
        const status = state.statuses[call.feedback]
        if (status === "pending") {
          return answers("staged", {
            ...withStatus(call.feedback, "staged"),
            stagedUntil: { ...state.stagedUntil, [call.feedback]: operation.answeredAt }
          })
        }
        return answers(status === undefined || status === "rejected" ? "FEEDBACK_NOT_PENDING" : status)
      }
      case "reject": {
        const status = state.statuses[call.feedback]
        if (status === "pending" || status === "staged") {
          return answers("rejected", withStatus(call.feedback, "rejected"))
        }
        return answers(status === "rejected" ? status : "FEEDBACK_NOT_PENDING")
      }
      case "get":
        return answers(state.statuses[call.feedback] ?? "NOT_FOUND")
      case "preview":
        return answers(datasetAnswers.preview(newestOf(state), sortedStaged(state)))
      case "list versions":
        return answers(datasetAnswers.versions(state.versions.map(({ id }) => id)))
      case "get task":
        return answers(newestOf(state) ?? "no version")
      case "promote": {
        const { base, key, staged } = call
        const earlier = key === null ? undefined : state.answers[key]
        if (earlier !== undefined) return answers(earlier)
        const current = newestOf(state)
        if (base !== current) return answers(`DATASET_BASE_CHANGED: ${current ?? "no version"}`)
        const present = sortedStaged(state)
        if (present.length === 0) return answers("NOTHING_STAGED")
        /** Without what was staged while this promotion ran. */
        const taken = present.filter(
          (id) => staged.includes(id) || (state.stagedUntil[id] ?? 0) <= operation.invokedAt
        )
        if (taken.join(" ") !== staged.join(" ") || operation.answer === "FEEDBACK_CHANGED") {
          return present.join(" ") === staged.join(" ") ? undefined : answers("FEEDBACK_CHANGED")
        }
        const version = versions.find((one) => one.base === current)
        if (version === undefined || version.version !== (state.versions[0]?.version ?? 0) + 1)
          return undefined
        const answer = datasetAnswers.promoted(version, taken)
        return answers(answer, {
          ...state,
          versions: [version, ...state.versions],
          statuses: {
            ...state.statuses,
            ...Object.fromEntries(taken.map((id) => [id, `promoted into ${version.id}` as const]))
          },
          answers: key === null ? state.answers : { ...state.answers, [key]: answer }
        })
      }
    }
  },
  key: ({ answers, stagedUntil, statuses, versions: [newest] }) => {
    const corrections = feedback.map((id) =>
      statuses[id] === "staged" ? `staged ${stagedUntil[id]}` : statuses[id]
    )
    return `${newest?.id ?? ""} ${corrections.join(",")} ${Object.keys(answers).toSorted().join(",")}`
  },
  isRead: ({ answer, call }) =>
    isRefusal(answer) || !(call.kind === "stage" || call.kind === "reject" || call.kind === "promote"),
  describe: (call) => {
    switch (call.kind) {
      case "stage":
      case "reject":
      case "get":
        return `${call.kind} ${call.feedback}`
      case "promote":
        return `promote ${call.staged.join(" ")} onto ${call.base ?? "no version"}${call.key === null ? "" : ` under key ${call.key}`}`
      default:
        return call.kind
    }
  }
})
