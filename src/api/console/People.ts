/** People who sign in with the identity provider, as the console lists them. */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { KeyId } from "../../domain/Ids.ts"
import { Preset, Scope } from "../../domain/identity/Scope.ts"
import { Timestamp } from "../../domain/Time.ts"
import { MadeKeys } from "../ApiKeys.ts"
import { Authentication, requires } from "../Authorization.ts"
import { RequestBody } from "../Middleware.ts"
import { page, pageQuery } from "../Pagination.ts"
import { problem } from "../Problem.ts"
import { InsufficientScope, LastAdminKey, NotFound } from "../Problems.ts"
import { withoutNul } from "../Text.ts"
import { CONSOLE_PATH } from "./consolePath.ts"

/** People cannot block themselves, because they could not undo it; and a blocked person must not be able to undo it. */
export class OwnAccess extends problem<OwnAccess>()(
  "OWN_ACCESS",
  409,
  "Your own access",
  "A person cannot block themselves, and a key cannot unblock the person who created it or has its verified address."
) {}

/** `active`: may sign in. `blocked`: by an administrator. `ended`: no group gives access, or the last sign-in is too long ago. */
export const PersonStatus = Schema.Literals(["active", "blocked", "ended"])
export type PersonStatus = typeof PersonStatus.Type

/** Someone who has signed in with the identity provider. */
export const Person = Schema.Struct({
  id: KeyId,
  name: Schema.String,
  email: Schema.NullOr(Schema.String),
  status: PersonStatus,
  /** Null: several rules gave access. */
  preset: Schema.NullOr(Preset),
  scopes: Schema.Array(Scope),
  groups: Schema.Array(Schema.String),
  signed_in_at: Timestamp,
  /** Open console sessions. */
  sessions: Schema.Int,
  /** Usable API keys that the person created, directly or by keys that they created. */
  made_keys: Schema.Int,
  blocked_at: Schema.NullOr(Timestamp),
  blocked_by: Schema.NullOr(Schema.String)
}).annotate({ identifier: "Person" })
export type Person = typeof Person.Type

const params = { id: KeyId }

/** The people of the organization. */
export class ConsolePeopleApi extends HttpApiGroup.make("people")
  .add(
    HttpApiEndpoint.get("list", "/", {
      query: {
        ...pageQuery(KeyId),
        status: Schema.optionalKey(PersonStatus),
        /** Part of the name or of the email address. */
        text: Schema.optionalKey(
          Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(200), withoutNul)
        )
      },
      success: page("people", Person, KeyId)
    }).middleware(requires("keys.write")),
    HttpApiEndpoint.get("get", "/:id", { params, success: Person, error: NotFound }).middleware(
      requires("keys.write")
    ),
    /** Ends all console sessions of the person, who can sign in again. */
    HttpApiEndpoint.delete("end_sessions", "/:id/sessions", {
      params,
      success: Schema.Struct({ ended: Schema.Int }),
      error: [InsufficientScope, NotFound]
    }).middleware(requires("keys.write")),
    /** Ends the sessions and emails of the person, who cannot sign in again, and the keys that they created unless they are kept. Idempotent. */
    HttpApiEndpoint.put("block", "/:id/block", {
      params,
      query: { made_keys: Schema.optionalKey(MadeKeys) },
      success: Person,
      error: [InsufficientScope, NotFound, OwnAccess, LastAdminKey]
    }).middleware(requires("keys.write")),
    /** Lets the person sign in again. Idempotent. */
    HttpApiEndpoint.delete("unblock", "/:id/block", {
      params,
      success: Person,
      error: [InsufficientScope, NotFound, OwnAccess]
    }).middleware(requires("keys.write"))
  )
  // `/console/people` is the page.
  .prefix(`${CONSOLE_PATH}/people-records`)
  .middleware(RequestBody)
  .middleware(Authentication) {}
