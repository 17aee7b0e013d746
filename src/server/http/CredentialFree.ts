import { Effect, Layer, type Schema } from "effect"
import { HttpServerRequest } from "effect/http"
import { CurrentPrincipal } from "../../api/Authorization.ts"
import { CredentialFree } from "../../api/Middleware.ts"
import { InvalidRequest } from "../../api/Problems.ts"
import { collectTexts, containsCredential } from "../../domain/redaction/Redaction.ts"
import { KnownSecrets } from "../secrets/KnownSecrets.ts"

/** Members with descriptions and reasons: lists, logs and emails show them, and nothing redacts them. */
const DESCRIPTIVE: ReadonlySet<string> = new Set([
  "name",
  "reason",
  "summary_template",
  "description",
  "metadata"
])

/** Refuses bodies with a known credential in a descriptive member, of the body itself or of an element of its lists. */
export const layer: Layer.Layer<CredentialFree, never, KnownSecrets> = Layer.effect(
  CredentialFree,
  Effect.gen(function* () {
    const secrets = yield* KnownSecrets
    return CredentialFree.of(
      Effect.fnUntraced(function* (operation) {
        const request = yield* HttpServerRequest.HttpServerRequest
        // `RequestBody` has read and checked it; the operation refuses a body that is not JSON.
        const body = yield* Effect.orElseSucceed(request.json, () => null)
        const members = describedIn(body, "#")
        if (members.length > 0) {
          const { org_id } = yield* CurrentPrincipal
          const known = yield* secrets.forOrg(org_id)
          const faults = members.filter(({ value }) =>
            [...collectTexts(value)].some((text) => containsCredential(text, known))
          )
          if (faults.length > 0) {
            const errors = faults.map(({ pointer }) => ({ pointer, detail: "Contains a credential." }))
            return yield* new InvalidRequest({
              detail:
                "A name, reason, template, description or metadata contains a credential. They are shown to people and not redacted: leave it out.",
              errors
            })
          }
        }
        return yield* operation
      })
    )
  })
)

/** The descriptive members of an object and of the objects in its lists, with their places. */
const describedIn = (
  body: Schema.Json,
  at: string
): ReadonlyArray<{ readonly pointer: string; readonly value: Schema.Json }> => {
  if (typeof body !== "object" || body === null) return []
  return Object.entries(body).flatMap(([name, value]: [string, Schema.Json]) => {
    const pointer = `${at}/${name}`
    if (DESCRIPTIVE.has(name)) return [{ pointer, value }]
    return at === "#" && Array.isArray(value)
      ? value.flatMap((element: Schema.Json, index) => describedIn(element, `${pointer}/${index}`))
      : []
  })
}
