import { Schema } from "effect"
import { openEnum } from "../OpenEnum.ts"
import { KeyId } from "../Ids.ts"
import { Actor } from "./Principal.ts"
import { Preset, Scope } from "./Scope.ts"
import { Timestamp } from "../Time.ts"

/** An API key as it is listed: never its secret part. */
export const ApiKey = Schema.Struct({
  id: KeyId,
  name: Schema.String,
  /** The key's text up to its secret: enough to tell keys apart. */
  hint: Schema.String,
  preset: Schema.NullOr(openEnum(Preset)),
  scopes: Schema.Array(openEnum(Scope)),
  /** Where notices for reviewers go, if the key belongs to one. */
  email: Schema.NullOr(Schema.String),
  created_at: Timestamp,
  created_by: Schema.NullOr(Actor),
  expires_at: Schema.NullOr(Timestamp),
  revoked_at: Schema.NullOr(Timestamp)
}).annotate({ identifier: "ApiKey" })
export type ApiKey = typeof ApiKey.Type
