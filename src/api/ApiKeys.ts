import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { ApiKey } from "../domain/identity/ApiKey.ts"
import { KeyId } from "../domain/Ids.ts"
import { Preset, Scope } from "../domain/identity/Scope.ts"
import { Timestamp } from "../domain/Time.ts"
import { isVisibleLine } from "../domain/VisibleText.ts"
import { Authentication, requires } from "./Authorization.ts"
import { Idempotent, idempotencyHeaders, RequestBody } from "./Middleware.ts"
import { page, pageQuery } from "./Pagination.ts"
import { InsufficientScope, LastAdminKey, NotFound } from "./Problems.ts"
import { Name } from "./Text.ts"

const EmailAddress = Schema.String.check(
  Schema.isMaxLength(254),
  Schema.isPattern(/^[^\s@<>"\\,;:]+@[^\s@<>"\\,;:]+$/u, { expected: "an email address" }),
  isVisibleLine
)

/** What a new key is made of. Without `preset` and `scopes` it can do nothing, so one of them is needed. */
export const NewApiKey = Schema.Struct({
  name: Name,
  preset: Schema.optionalKey(Preset),
  /** Instead of a preset, or beside one to narrow what it would give. */
  scopes: Schema.optionalKey(Schema.NonEmptyArray(Scope)),
  email: Schema.optionalKey(Schema.NullOr(EmailAddress)),
  expires_at: Schema.optionalKey(Schema.NullOr(Timestamp))
}).annotate({ identifier: "NewApiKey" })
export type NewApiKey = typeof NewApiKey.Type

/** A key and, this once, its text. */
export const CreatedApiKey = Schema.Struct({
  key: ApiKey,
  secret: Schema.String
}).annotate({ identifier: "CreatedApiKey" })

/** API keys of the organization. */
export class ApiKeysApi extends HttpApiGroup.make("api_keys")
  .add(
    HttpApiEndpoint.get("list", "/", {
      query: pageQuery(KeyId),
      success: page("keys", ApiKey, KeyId)
    })
      .middleware(requires("keys.write"))
      .annotate(
        OpenApi.Description,
        "Keys with what they may do, newest first, those that were revoked or have expired among them; never their secret part."
      ),
    HttpApiEndpoint.post("create", "/", {
      headers: idempotencyHeaders,
      payload: NewApiKey,
      success: CreatedApiKey.pipe(HttpApiSchema.status(201)),
      error: InsufficientScope
    })
      .middleware(Idempotent)
      .middleware(requires("keys.write"))
      .annotate(
        OpenApi.Description,
        "A key, whose `secret` is answered this once. It may do what its `preset` or its `scopes` say, none of which the asking key may lack."
      ),
    HttpApiEndpoint.delete("revoke", "/:id", {
      params: { id: KeyId },
      error: [NotFound, LastAdminKey]
    })
      .middleware(requires("keys.write"))
      .annotate(
        OpenApi.Description,
        "The key is refused from then on. The last usable admin key is not: 409 `LAST_ADMIN_KEY`."
      )
  )
  .prefix("/v1/api-keys")
  .middleware(RequestBody)
  .middleware(Authentication)
  .annotateMerge(
    OpenApi.annotations({
      title: "API keys",
      description: "Keys are shown once, when they are made. A key cannot give a scope that it lacks."
    })
  ) {}
