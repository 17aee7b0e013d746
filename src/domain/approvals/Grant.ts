import { Schema } from "effect"
import { documentedEnum } from "../documentedEnum.ts"
import { ApprovalId, GrantId, SessionId, StepId } from "../Ids.ts"
import { Actor } from "../identity/Principal.ts"
import { timestamp, Timestamp } from "../Time.ts"
import { RuleCondition } from "./RuleCondition.ts"

/** Longest duration of a grant, and the default, in seconds. */
export const MAX_GRANT_SECONDS = 24 * 3600
export const DEFAULT_GRANT_SECONDS = 3600

/** Most steps that a grant with a count can allow. */
export const MAX_GRANT_USES = 1_000

/** Most active grants: every step that asks is compared with the grants of its session. */
export const MAX_SESSION_GRANTS = 20
export const MAX_ORGANIZATION_GRANTS = 1_000

/** Longest JSON text of a grant's conditions: each grant is stored and listed with them. */
export const MAX_GRANT_CONDITIONS_TEXT = 16_384

export const GrantScope = documentedEnum({
  arguments: "Steps with the tool, the action class and the arguments of the approved step.",
  tool: "Steps with the tool and the action class of the approved step, whatever their arguments.",
  condition:
    "Steps with the tool and the action class of the approved step, for whose arguments all conditions in `when` hold."
})
export type GrantScope = typeof GrantScope.Type

export const GrantStatus = documentedEnum({
  active: "It allows steps.",
  used_up: "It has allowed as many steps as `max_uses`.",
  expired: "Its time has passed.",
  revoked: "Someone revoked it.",
  session_closed: "Its agent session was closed.",
  key_unusable:
    "The API key that made it was revoked, has expired, or may no longer decide approvals. It allows nothing."
})
export type GrantStatus = typeof GrantStatus.Type

/** Why a grant has ended before its time. */
export const GrantEndReason = Schema.Literals(["used_up", "revoked", "session_closed"])
export type GrantEndReason = typeof GrantEndReason.Type

export const Grant = Schema.Struct({
  grant_id: GrantId.annotateKey({ description: "The grant's ID." }),
  status: GrantStatus.annotateKey({ description: "Whether the grant allows steps, or why not." }),
  session_id: SessionId.annotateKey({ description: "The agent session whose steps it allows." }),
  approval_id: ApprovalId.annotateKey({ description: "The approval with whose decision it was made." }),
  step_id: StepId.annotateKey({ description: "The step of that approval." }),
  scope: GrantScope.annotateKey({ description: "Which steps it allows." }),
  tool: Schema.String.annotateKey({ description: "The tool of these steps." }),
  action_class: Schema.String.annotateKey({ description: "Their action class." }),
  when: Schema.Array(RuleCondition).annotateKey({
    description: "Conditions on their arguments; all must hold. Empty unless `scope` is `condition`."
  }),
  reason: Schema.String.annotateKey({ description: "Why it was made. Empty if no reason was given." }),
  uses: Schema.Int.annotateKey({ description: "How many steps it has allowed." }),
  max_uses: Schema.NullOr(Schema.Int).annotateKey({
    description: "How many steps it can allow. Null: any number until it ends."
  }),
  last_used_at: Schema.NullOr(Timestamp).annotateKey({
    description: "When it allowed a step last. Null if it has allowed none."
  }),
  created_at: timestamp("When it was made."),
  created_by: Actor.annotateKey({ description: "The API key that made it." }),
  expires_at: timestamp("When it ends at the latest."),
  ended_at: Schema.NullOr(Timestamp).annotateKey({
    description:
      "When it ended before `expires_at`: it was used up or revoked, or its session was closed. Null otherwise."
  }),
  revoked_by: Schema.NullOr(Actor).annotateKey({
    description: "The API key that revoked it. Null unless `status` is `revoked`."
  })
}).annotate({
  identifier: "Grant",
  description:
    "A reviewer's approval in advance: steps of one agent session that would ask a person are allowed, until a time or a count runs out."
})
export type Grant = typeof Grant.Type

/** The status of a grant at a time, from its stored members. */
export const grantStatus = (
  grant: {
    readonly expires_at: Timestamp
    readonly end_reason: GrantEndReason | null
    /** Whether the key that made the grant can still decide approvals. */
    readonly is_key_usable: boolean
  },
  now: Timestamp
): GrantStatus => {
  if (grant.end_reason !== null) return grant.end_reason
  if (grant.expires_at.epochMilliseconds <= now.epochMilliseconds) return "expired"
  return grant.is_key_usable ? "active" : "key_unusable"
}
