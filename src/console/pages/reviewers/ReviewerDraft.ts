/** A reviewer model while its form is edited. Numbers and lists are text until the form is submitted. */
import { Schema } from "effect"
import type { NewReviewer } from "../../../api/Reviewers.ts"
import {
  DEFAULT_DAILY_CALLS,
  DEFAULT_DAILY_TOKENS,
  type Reviewer
} from "../../../domain/approvals/Reviewer.ts"
import { restoreProvider, withoutSecrets } from "../tasks/keptTask.ts"
import { newTaskDraft, type ProviderDraft, toProvider } from "../tasks/TaskDraft.ts"

/** What can change later without another release. */
export interface LimitsDraft {
  /** One pattern per line. */
  readonly tools: string
  readonly daily_calls: string
  readonly daily_tokens: string
}

export interface ReviewerDraft extends LimitsDraft {
  readonly name: string
  readonly instructions: string
  /** Empty: amounts are not told apart. */
  readonly pointer: string
  /** Bounds between the bands, separated by commas or blanks. */
  readonly bounds: string
  readonly provider: ProviderDraft
}

export const newReviewerDraft: ReviewerDraft = {
  name: "",
  instructions: "",
  tools: "",
  pointer: "",
  bounds: "",
  daily_calls: String(DEFAULT_DAILY_CALLS),
  daily_tokens: String(DEFAULT_DAILY_TOKENS),
  provider: { ...newTaskDraft.provider, kind: "openai" }
}

/** Starts editing the limits of a reviewer. */
export const toLimitsDraft = ({ daily_calls, daily_tokens, tools }: Reviewer): LimitsDraft => ({
  tools: tools.join("\n"),
  daily_calls: String(daily_calls),
  daily_tokens: String(daily_tokens)
})

/** The limits of a draft as the API accepts them. */
export const fromLimitsDraft = ({ daily_calls, daily_tokens, tools }: LimitsDraft) => ({
  tools: tools.split("\n").flatMap((line) => (line.trim() === "" ? [] : [line.trim()])),
  daily_calls: Number(daily_calls),
  daily_tokens: Number(daily_tokens)
})

/** The request that creates the reviewer. */
export const toNewReviewer = (draft: ReviewerDraft): NewReviewer => ({
  name: draft.name.trim(),
  provider: toProvider(draft.provider),
  instructions: draft.instructions,
  ...fromLimitsDraft(draft),
  ...(draft.pointer.trim() === ""
    ? {}
    : {
        amount: {
          pointer: draft.pointer.trim(),
          bounds: draft.bounds.split(/[\s,;]+/u).flatMap((text) => (text === "" ? [] : [Number(text)]))
        }
      })
})

/** The stored form of a draft, without secrets: nothing if it is a new one. */
export const toStoredReviewer = (draft: ReviewerDraft): unknown => {
  const stored = { ...draft, provider: withoutSecrets(draft.provider) }
  return JSON.stringify(stored) === JSON.stringify(newReviewerDraft) ? undefined : stored
}

const decode = Schema.decodeUnknownOption(
  Schema.Struct({
    name: Schema.String,
    instructions: Schema.String,
    tools: Schema.String,
    pointer: Schema.String,
    bounds: Schema.String,
    daily_calls: Schema.String,
    daily_tokens: Schema.String,
    provider: Schema.Unknown
  })
)

/** The draft of the stored form; undefined if it is of another version of the console. */
export const restoreReviewer = (stored: unknown): ReviewerDraft | undefined => {
  const decoded = decode(stored)
  if (decoded._tag === "None") return undefined
  const provider = restoreProvider(decoded.value.provider)
  return provider === undefined ? undefined : { ...decoded.value, provider }
}
