import { Schema } from "effect"
import { documentedEnum } from "../documentedEnum.ts"
import { openEnum } from "../OpenEnum.ts"
import { KeyId } from "../Ids.ts"
import { Actor } from "./Principal.ts"
import { Preset, Scope } from "./Scope.ts"
import { timestamp, Timestamp } from "../Time.ts"

export const RevocationReason = documentedEnum({
  requested: "A key with `keys.write`, or the operator, revoked it.",
  leaked: "Its text was reported as leaked, or that of a key that created it.",
  access_ended: "The person who created it, or a key that created it, lost rights by their groups."
})
export type RevocationReason = typeof RevocationReason.Type

export const ApiKey = Schema.Struct({
  id: KeyId.annotateKey({ description: "The key's ID." }),
  name: Schema.String.annotateKey({ description: "The name given when the key was created." }),
  hint: Schema.String.annotateKey({
    description:
      "The key's text up to its secret part, such as `csk_4Zr8mWq2LxT0aBcD_`: enough to tell keys apart."
  }),
  preset: Schema.NullOr(openEnum(Preset)).annotateKey({
    description: "The preset that the key was created with. Null if it was created with scopes alone."
  }),
  scopes: Schema.Array(openEnum(Scope)).annotateKey({ description: "The key's scopes: its permissions." }),
  groups: Schema.Array(Schema.String).annotateKey({
    description: "The key's groups, which quorums of approval rules name. They do not change."
  }),
  email: Schema.NullOr(Schema.String).annotateKey({
    description: "Where approval emails for this reviewer go. Null if the key receives none."
  }),
  email_verified_at: Schema.NullOr(Timestamp).annotateKey({
    description:
      "When the owner of the address last confirmed it by a link, for this or another key of the organization. Null if never, or if the key has no address."
  }),
  email_awaits_verification: Schema.Boolean.annotateKey({
    description:
      "Whether the address is sent nothing but links until its owner has confirmed it, because the installation requires verified addresses."
  }),
  created_at: timestamp("When the key was created."),
  created_by: Schema.NullOr(Actor).annotateKey({
    description:
      "The key that created this one. Null if the operator did, on the command line or at first start."
  }),
  expires_at: Schema.NullOr(Timestamp).annotateKey({
    description: "When the key expires. Null if it does not."
  }),
  revoked_at: Schema.NullOr(Timestamp).annotateKey({
    description: "When the key was revoked. Null if it was not."
  }),
  revocation_reason: Schema.NullOr(openEnum(RevocationReason)).annotateKey({
    description: "Why the key was revoked. Null if it was not."
  }),
  allowed_networks: Schema.NullOr(Schema.Array(Schema.String)).annotateKey({
    description:
      "The networks that requests with the key may come from, in CIDR notation. Null if they may come from anywhere."
  }),
  last_used_at: Schema.NullOr(Timestamp).annotateKey({
    description:
      "When a request with the key, or with a console session of it, was last accepted, to within two minutes. Null if none was."
  })
}).annotate({ identifier: "ApiKey", description: "An API key, without its secret part." })
export type ApiKey = typeof ApiKey.Type
