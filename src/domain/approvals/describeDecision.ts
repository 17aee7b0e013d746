/** The text for a model about a call that is not executed. The same words in every adapter and in answers to hooks. */

/** What rejected a call: a person, a rule, a reviewer model, the end of the review windows, or the end of the session. */
export type RejectionCause = "person" | "rule" | "model" | "timeout" | "session_closed"

/** A rejected call. */
export interface Rejection {
  readonly cause: RejectionCause
  /** Why, as the rule or the service says. */
  readonly reason: string
  /** The reviewer model that rejected it, with its reason. */
  readonly reviewer?: { readonly reason: string } | undefined
  /** The comment of the person who rejected it. */
  readonly comment: string | null
  /** Whether this person requests changes. */
  readonly changes_requested: boolean
  /** The arguments that this person proposed instead, and until when a call with them is allowed (RFC 3339). */
  readonly proposal: { readonly arguments: unknown; readonly expires_at: string } | undefined
}

/** A reason as a sentence of its own. */
export const sentence = (text: string): string => {
  const trimmed = text.trim()
  return trimmed === "" || /[.!?]$/u.test(trimmed) ? trimmed : `${trimmed}.`
}

/** Sentences in one line; empty ones are left out. */
export const joinSentences = (...sentences: ReadonlyArray<string>): string =>
  sentences.filter(Boolean).join(" ")

const describeProposal = (proposal: Rejection["proposal"]): string =>
  proposal === undefined
    ? "Do not call it again with these arguments."
    : `They propose other arguments; a call with exactly these is allowed until ${proposal.expires_at}: ${JSON.stringify(proposal.arguments)}`

/** Says what rejected a call. */
export const describeRejection = ({
  cause,
  changes_requested,
  comment,
  proposal,
  reason,
  reviewer
}: Rejection): string => {
  switch (cause) {
    case "person":
      if (changes_requested)
        return joinSentences(
          "A person requests changes of this call, so it was not executed.",
          `What they want changed: ${JSON.stringify(comment ?? "")}.`,
          proposal === undefined
            ? "Make the changes and call the tool again with changed arguments; the same call stays rejected."
            : describeProposal(proposal)
        )
      return joinSentences(
        "A person rejected this call, so it was not executed.",
        // Quoted: it is the person's, not an instruction of the service.
        comment === null || comment === "" ? "" : `Their comment: ${JSON.stringify(comment)}.`,
        describeProposal(proposal)
      )
    case "rule":
      return joinSentences(
        "A rule rejected this call, so it was not executed.",
        sentence(reason),
        "Do not call it again with these arguments."
      )
    case "model":
      return joinSentences(
        "A reviewer model rejected this call, so it was not executed. No person has rejected it.",
        // Quoted: it is the model's, not an instruction of the service.
        reviewer === undefined || reviewer.reason === ""
          ? ""
          : `Its reason: ${JSON.stringify(reviewer.reason)}.`,
        "Do not call it again with these arguments."
      )
    case "timeout":
      return "Nobody decided about this call in time, so it was not executed. No person has rejected it."
    case "session_closed":
      return "The session was closed before anybody decided about this call, so it was not executed."
  }
}

/** Says that a call waits for a person, and what reviewers ask. The end of the review window is in RFC 3339. */
export const describeWaiting = (
  approval_id: string,
  expires_at: string | null,
  messages?: ReadonlyArray<ReviewerMessage>
): string =>
  joinSentences(
    `This call waits for a person (approval ${approval_id}) and was not executed.`,
    expires_at === null ? "" : `The review window ends at ${expires_at}.`,
    describeMessages(messages)
  )

/** A message of a reviewer about a call. */
interface ReviewerMessage {
  readonly number: number
  readonly text: string
}

/** Quotes the open messages of reviewers: they are the text of people, not instructions of the service. */
const describeMessages = (messages: ReadonlyArray<ReviewerMessage> = []): string =>
  joinSentences(...messages.map(({ text }) => `A reviewer asks: ${JSON.stringify(text)}.`))

/** Passes the open messages of reviewers to the model, for a call that was not executed and still waits. */
export const describeQuestion = (approval_id: string, messages: ReadonlyArray<ReviewerMessage>): string =>
  joinSentences(
    "This call waits for a person and was not executed. Nothing has been rejected.",
    describeMessages(messages),
    "If the question shows a mistake, call the tool again with other arguments: that is a new call, which a person decides anew.",
    `Otherwise answer with the tool send_message of Countersign if you have it, or by telling the user; then make the same call with the same arguments again: it goes on waiting for approval ${approval_id}.`
  )

/** The receipt that reviewers get in place of an answer when their messages were passed to the model. */
export const PASSED_TO_MODEL =
  "Your message was passed to the model. It answers here if it can, or by a call with other arguments, or it waits with the same call."

/** The later messages of reviewers that a receipt covers too. */
export const coveredBy = <Message extends ReviewerMessage & { readonly sender: string }>(
  receipt: Pick<ReviewerMessage, "number">,
  later: ReadonlyArray<Message>
): ReadonlyArray<Message> =>
  later.filter(({ number, sender }) => sender === "reviewer" && number < receipt.number)

/** Says that a call has an outcome already. */
export const ALREADY_EXECUTED =
  "This call was executed before and its outcome is recorded, so it was not executed again."

/** A step that cannot be claimed, as the problem `STEP_ALREADY_CLAIMED` says. */
export interface ClaimedCall {
  readonly state: "executing" | "unknown" | "completed"
  /** In RFC 3339. */
  readonly claimed_at: string | null
  /** The outcome, if it is recorded. */
  readonly outcome: {
    readonly status: "succeeded" | "failed"
    readonly result?: unknown
    readonly error: string | null
  } | null
}

/** Most characters of a result in such a text. */
const MAX_RESULT_CHARACTERS = 4_000

/** Says that a call was claimed before, and what happened to it. */
export const describeClaimed = ({ claimed_at, outcome, state }: ClaimedCall): string => {
  const since = claimed_at === null ? "" : ` at ${claimed_at}`
  switch (state) {
    case "executing":
      return `This call was claimed${since} and is being executed, so it was not executed again. Its outcome will be recorded.`
    case "unknown":
      return joinSentences(
        `This call was claimed${since}, and no outcome was reported: it may have been executed, so it was not executed again.`,
        "A person must find out what happened and resolve the execution in Countersign. Do not repeat it in another form."
      )
    case "completed":
      return joinSentences(ALREADY_EXECUTED, describeOutcome(outcome))
  }
}

const describeOutcome = (outcome: ClaimedCall["outcome"]): string => {
  if (outcome === null) return ""
  const { error, result, status } = outcome
  if (status === "failed") return error === null ? "It failed." : `It failed: ${JSON.stringify(error)}.`
  const text = result === undefined ? "" : JSON.stringify(result)
  return text === "" || text.length > MAX_RESULT_CHARACTERS ? "It succeeded." : `It succeeded: ${text}.`
}

/** What rejected a step, by its `decision_source`. */
export const rejectionCause = (decision_source: string | null): RejectionCause => {
  switch (decision_source) {
    case "human":
    case "counter_proposal":
      return "person"
    case "model":
      return "model"
    case "timeout":
      return "timeout"
    case "session_closed":
      return "session_closed"
    default:
      return "rule"
  }
}
