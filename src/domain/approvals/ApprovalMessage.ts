import { Schema } from "effect"
import { documentedEnum } from "../documentedEnum.ts"
import { Actor } from "../identity/Principal.ts"
import { formatTimestamp, timestamp } from "../Time.ts"

/** Most characters of a message. */
export const MAX_MESSAGE_LENGTH = 4_000

/** Most messages that each side sends on one approval. */
export const MAX_MESSAGES = 50

/** Most messages that each side sends on one approval in `MESSAGE_RATE_SECONDS`. */
export const MAX_MESSAGE_RATE = 10
export const MESSAGE_RATE_SECONDS = 60

export const MessageSender = documentedEnum({
  reviewer: "A person with an API key that decides approvals.",
  agent: "The agent: the API key that submitted the step, or another one of the session."
})
export type MessageSender = typeof MessageSender.Type

export const ApprovalMessage = Schema.Struct({
  number: Schema.Int.annotateKey({
    description: "Position in the approval's conversation: 1 for the first message, without gaps."
  }),
  sender: MessageSender.annotateKey({ description: "Who speaks." }),
  sent_by: Actor.annotateKey({ description: "The API key that sent it." }),
  sent_at: timestamp("When it was sent."),
  text: Schema.String.annotateKey({ description: "The text, with secrets redacted." })
}).annotate({
  identifier: "ApprovalMessage",
  description: "A message between reviewers and the agent about a pending approval. It decides nothing."
})
export type ApprovalMessage = typeof ApprovalMessage.Type

/** A message as JSON, as `ApprovalMessage` encodes it. */
export const encodeMessage = (message: ApprovalMessage): typeof ApprovalMessage.Encoded => ({
  ...message,
  sent_at: formatTimestamp(message.sent_at)
})
