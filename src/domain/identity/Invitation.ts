import { Duration, Schema } from "effect"
import { documentedEnum } from "../documentedEnum.ts"
import { InvitationId, KeyId } from "../Ids.ts"
import { openEnum } from "../OpenEnum.ts"
import { timestamp, Timestamp } from "../Time.ts"
import { Actor } from "./Principal.ts"
import { Preset, Scope } from "./Scope.ts"

/** How long an invitation can be accepted. */
export const INVITATION_LIFETIME = Duration.days(7)

/** How long an invitation is retained after its end. */
export const INVITATION_RETENTION = Duration.days(30)

/** The most invitations of an organization that can be accepted. */
export const MAX_PENDING_INVITATIONS = 100

export const InvitationStatus = documentedEnum({
  pending: "It can be accepted.",
  accepted: "It was accepted, and its API key exists.",
  revoked: "It was revoked before anyone accepted it.",
  expired: "Nobody accepted it in time."
})
export type InvitationStatus = typeof InvitationStatus.Type

export const Invitation = Schema.Struct({
  id: InvitationId.annotateKey({ description: "The invitation's ID." }),
  name: Schema.String.annotateKey({ description: "The name of the key that accepting it creates." }),
  email: Schema.String.annotateKey({ description: "The address that the link was sent to." }),
  preset: Schema.NullOr(openEnum(Preset)).annotateKey({
    description: "The preset of the key. Null if it gets scopes alone."
  }),
  scopes: Schema.Array(openEnum(Scope)).annotateKey({ description: "The scopes of the key." }),
  groups: Schema.Array(Schema.String).annotateKey({ description: "The groups of the key." }),
  status: openEnum(InvitationStatus).annotateKey({ description: "Whether it can be accepted." }),
  created_at: timestamp("When the invitation was sent."),
  created_by: Actor.annotateKey({ description: "The key that invited. It creates the invited one." }),
  expires_at: timestamp("Until when it can be accepted."),
  accepted_at: Schema.NullOr(Timestamp).annotateKey({
    description: "When it was accepted. Null if it was not."
  }),
  key_id: Schema.NullOr(KeyId).annotateKey({
    description: "The API key that accepting it created. Null if it was not accepted."
  }),
  revoked_at: Schema.NullOr(Timestamp).annotateKey({
    description: "When it was revoked. Null if it was not."
  })
}).annotate({
  identifier: "Invitation",
  description: "An invitation by email to use an API key of the organization."
})
export type Invitation = typeof Invitation.Type
