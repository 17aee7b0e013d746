import { DateTime, Effect, Option, Schema } from "effect"
import { SecureRandom } from "effect/crypto"
import type { EventId, OrgId } from "../Ids.ts"
import type { Timestamp } from "../Time.ts"

/** The longest answer to a challenge, in bytes. */
export const MAX_ANSWER_BYTES = 4 * 1024

/** A random value that a receiver has to return. */
export const generateChallenge: Effect.Effect<string> = Effect.sync(() =>
  Buffer.from(SecureRandom.randomBytesUnsafe(32)).toString("base64url")
)

/**
 * The body of a verification event. The challenge is nested in an object, so that a server which echoes request bodies
 * does not answer it by accident.
 */
export const challengeBody = (event: {
  readonly id: EventId
  readonly org_id: OrgId
  readonly occurred_at: Timestamp
  readonly challenge: string
}): string =>
  JSON.stringify({
    id: event.id,
    type: "verification",
    org_id: event.org_id,
    occurred_at: DateTime.formatIso(event.occurred_at),
    approval: null,
    verification: { challenge: event.challenge }
  })

const decodeAnswer = Schema.decodeUnknownOption(
  Schema.fromJsonString(Schema.Struct({ challenge: Schema.String }))
)

/** Whether a response's body answers the challenge: the JSON object `{"challenge": "…"}`, or the challenge alone as text. */
export const answersChallenge = (body: Uint8Array, challenge: string): boolean => {
  const text = new TextDecoder().decode(body).trim()
  return text === challenge || Option.exists(decodeAnswer(text), (answer) => answer.challenge === challenge)
}
