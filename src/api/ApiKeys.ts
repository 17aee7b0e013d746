import { Result, Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { MAX_ALLOWED_NETWORKS, parseAllowedNetwork } from "../domain/identity/AllowedNetworks.ts"
import { ApiKey } from "../domain/identity/ApiKey.ts"
import { Group, MAX_GROUPS } from "../domain/identity/Group.ts"
import { KeyId } from "../domain/Ids.ts"
import { Preset, Scope } from "../domain/identity/Scope.ts"
import { Timestamp } from "../domain/Time.ts"
import { isVisibleLine } from "../domain/VisibleText.ts"
import { Authentication, requires } from "./Authorization.ts"
import { documentedEnum } from "../domain/documentedEnum.ts"
import { MAX_SEARCH, SearchText } from "./listQuery.ts"
import { CredentialFree, Idempotent, idempotencyHeaders, RequestBody } from "./Middleware.ts"
import { page, pageQuery } from "./Pagination.ts"
import {
  EmailNotVerifiable,
  InsufficientScope,
  KeyEnded,
  LastAdminKey,
  NameInUse,
  LimitReached,
  NotFound,
  RateLimited
} from "./Problems.ts"
import { PersonName } from "./Text.ts"

export const EmailAddress = Schema.String.check(
  Schema.isMaxLength(254),
  // No published pattern: a schema can have only one.
  isVisibleLine.annotate({ toJsonSchema: () => [{}, true] }),
  Schema.isPattern(/^[^\s@<>"\\,;:]+@[^\s@<>"\\,;:]+$/u, { expected: "an email address" })
)

const Network = Schema.String.check(
  Schema.isMaxLength(49),
  Schema.makeFilter((text) => Result.isSuccess(parseAllowedNetwork(text)), {
    expected: "a network in CIDR notation, such as 203.0.113.0/24 or 2001:db8::/32",
    // Matches every network, and some other texts: an exact pattern would be a page long.
    toJsonSchema: () => [{ pattern: "^[0-9A-Fa-f:.]+/[0-9]{1,3}$" }, true]
  })
)

export const NewApiKey = Schema.Struct({
  name: PersonName.annotateKey({
    description:
      "A name that people recognize: 1 to 200 visible characters. Actions are attributed to it, so give each person their own key. No usable key of the organization may have the same name."
  }),
  preset: Schema.optionalKey(Preset).annotateKey({
    description: "A named set of scopes. Required unless `scopes` is given."
  }),
  scopes: Schema.optionalKey(Schema.Array(Scope)).annotateKey({
    description:
      "The key's scopes. Required unless `preset` is given; with a preset, a subset of its scopes. An empty list counts as absent. The calling key must have each of them."
  }),
  groups: Schema.optionalKey(Schema.Array(Group).check(Schema.isMaxLength(MAX_GROUPS))).annotateKey({
    description: `Groups, which quorums of approval rules name: at most ${MAX_GROUPS} names of 1 to 63 lowercase letters, digits, dots, hyphens and underscores. The calling key must have each of them, or \`rules.write\`. Default: none.`
  }),
  email: Schema.optionalKey(Schema.NullOr(EmailAddress)).annotateKey({
    description:
      "Where approval emails for this reviewer go: an email address of at most 254 characters. If the installation requires verified addresses, its owner is sent a link, and no other email before opening it. Default null: no email."
  }),
  expires_at: Schema.optionalKey(Schema.NullOr(Timestamp)).annotateKey({
    description:
      "When the key expires: no later than the calling key. Default null: it expires with the calling key, or never."
  }),
  allowed_networks: Schema.optionalKey(
    Schema.NullOr(Schema.NonEmptyArray(Network).check(Schema.isMaxLength(MAX_ALLOWED_NETWORKS)))
  ).annotateKey({
    description: `The networks that requests with the key may come from: 1 to ${MAX_ALLOWED_NETWORKS}, in CIDR notation, each within one of the calling key's. Requests from elsewhere get 403 \`ADDRESS_NOT_ALLOWED\`. Default null: the calling key's networks, or anywhere if it has none.`
  })
}).annotate({ identifier: "NewApiKey", description: "An API key to create. Give a preset, scopes, or both." })
export type NewApiKey = typeof NewApiKey.Type

export const ApiKeyChange = Schema.Struct({
  name: Schema.optionalKey(PersonName).annotateKey({
    description:
      "A new name: 1 to 200 visible characters. No other usable key of the organization may have it. Records of earlier actions keep the name of their time."
  }),
  email: Schema.optionalKey(Schema.NullOr(EmailAddress)).annotateKey({
    description:
      "Where approval emails go from now on; null: nowhere. An address that its owner has not confirmed for a key of this organization is unverified. If the installation requires verified addresses, its owner is sent a link, and no other email before opening it."
  })
}).annotate({ identifier: "ApiKeyChange", description: "The members of an API key to change." })
export type ApiKeyChange = typeof ApiKeyChange.Type

export const KeyStatus = documentedEnum({
  active: "Keys that are neither revoked nor expired.",
  expired: "Keys that have expired and were not revoked.",
  revoked: "Keys that were revoked."
})
export type KeyStatus = typeof KeyStatus.Type

export const KeyOrder = documentedEnum({
  newest: "Newest first.",
  name: "By name, in ascending order, without regard to letter case.",
  last_used: "Last used first, and keys that were never used last."
})
export type KeyOrder = typeof KeyOrder.Type

/** The filters and the order of a list of keys. */
export const apiKeyFilter = {
  status: Schema.optionalKey(KeyStatus).annotateKey({
    description: "Only keys of this status. Default: all keys."
  }),
  name: Schema.optionalKey(SearchText).annotateKey({
    description: `Only keys whose name contains this text, without regard to letter case: 1 to ${MAX_SEARCH} characters.`
  }),
  order: Schema.optionalKey(KeyOrder).annotateKey({
    description: "The order of the list. Use each cursor with the order of its page. Default `newest`."
  })
}

/** The query of a list of keys. */
export const ApiKeyQuery = Schema.Struct({ ...pageQuery(KeyId), ...apiKeyFilter })
export type ApiKeyQuery = typeof ApiKeyQuery.Type

export const MadeKeys = Schema.Literals(["revoke", "keep"])
export type MadeKeys = typeof MadeKeys.Type

export const CreatedApiKey = Schema.Struct({
  key: ApiKey.annotateKey({ description: "The key." }),
  secret: Schema.String.annotateKey({
    description:
      "The key's full text, to send as a bearer token. Only this response contains it; store it safely."
  })
}).annotate({ identifier: "CreatedApiKey", description: "A new API key with its full text." })

/** A page of API keys. */
export const ApiKeyPage = page("keys", ApiKey, KeyId)

export class ApiKeysApi extends HttpApiGroup.make("apiKeys")
  .add(
    HttpApiEndpoint.get("list", "/", {
      query: ApiKeyQuery.fields,
      success: ApiKeyPage
    })
      .middleware(requires("keys.write"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "listApiKeys",
          summary: "List API keys",
          description:
            "Lists the organization's API keys, newest first and including revoked and expired ones, unless the query says otherwise."
        })
      ),
    HttpApiEndpoint.post("create", "/", {
      headers: idempotencyHeaders,
      payload: NewApiKey,
      success: CreatedApiKey.pipe(HttpApiSchema.status(201)),
      error: [InsufficientScope, LimitReached, NameInUse]
    })
      .middleware(Idempotent)
      .middleware(CredentialFree)
      .middleware(requires("keys.write"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "createApiKey",
          summary: "Create an API key",
          description:
            "Creates an API key and returns its text, which is not shown again. An organization has a limit of keys that are neither revoked nor expired."
        })
      ),
    HttpApiEndpoint.get("get", "/:id", {
      params: { id: KeyId.annotateKey({ description: "The API key's ID." }) },
      success: ApiKey,
      error: [NotFound]
    })
      .middleware(requires("keys.write"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "getApiKey",
          summary: "Get an API key",
          description: "Returns one API key of the organization, also a revoked or expired one."
        })
      ),
    HttpApiEndpoint.patch("update", "/:id", {
      params: { id: KeyId.annotateKey({ description: "The API key's ID." }) },
      payload: ApiKeyChange,
      success: ApiKey,
      error: [InsufficientScope, NotFound, KeyEnded, NameInUse]
    })
      .middleware(CredentialFree)
      .middleware(requires("keys.write"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "updateApiKey",
          summary: "Update an API key",
          description:
            "Changes the name of a usable key or the address of its approval emails. The calling key must have every scope and group of the key (or, for groups, `rules.write`), because the emails show what those allow to read. Scopes, groups, expiry and networks do not change: create another key for that."
        })
      ),
    HttpApiEndpoint.post("verifyEmail", "/:id/verify-email", {
      params: { id: KeyId.annotateKey({ description: "The API key's ID." }) },
      success: ApiKey.pipe(HttpApiSchema.status(202)),
      error: [NotFound, EmailNotVerifiable, RateLimited]
    })
      .middleware(requires("keys.write"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "verifyApiKeyEmail",
          summary: "Verify an API key's email address",
          description: [
            "Sends the key's email address a link, by which its owner confirms the address. A link can be used once, within 48 hours. An address that is already confirmed is sent none.",
            "One address is sent at most three links within an hour, and the number of an organization's addresses that are sent a link within an hour is limited too. If the installation requires verified addresses, creating a key sends the first link."
          ].join("\n\n")
        })
      ),
    HttpApiEndpoint.delete("revoke", "/:id", {
      params: { id: KeyId.annotateKey({ description: "The API key's ID." }) },
      query: {
        made_keys: Schema.optionalKey(MadeKeys).annotateKey({
          description:
            "Whether the keys that this key created, and the keys that those created in turn, are revoked with it (`revoke`) or remain usable (`keep`, to replace a key that has not leaked). Default `revoke`."
        })
      },
      error: [InsufficientScope, NotFound, LastAdminKey]
    })
      .middleware(requires("keys.write"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "revokeApiKey",
          summary: "Revoke an API key",
          description:
            "Revokes the key and the keys that it created, unless `made_keys` is `keep`. The calling key must have every scope and group of the key (or, for groups, `rules.write`). Idempotent. Revoking the last usable admin key fails with 409 `LAST_ADMIN_KEY`."
        })
      )
  )
  .prefix("/v1/api-keys")
  .middleware(RequestBody)
  .middleware(Authentication)
  .annotateMerge(
    OpenApi.annotations({
      title: "API keys",
      description:
        "API keys authenticate requests and carry scopes. A key's text is shown once, when it is created. A key cannot grant a scope that it lacks, and a key that it creates expires no later. Revocation and expiry take effect on every replica within five seconds."
    })
  ) {}
