import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { documentedEnum } from "../domain/documentedEnum.ts"
import {
  DEFAULT_GRANT_SECONDS,
  Grant,
  GrantScope,
  MAX_GRANT_SECONDS,
  MAX_GRANT_USES,
  MAX_ORGANIZATION_GRANTS,
  MAX_SESSION_GRANTS
} from "../domain/approvals/Grant.ts"
import { MAX_RULE_CONDITIONS, RuleCondition } from "../domain/approvals/RuleCondition.ts"
import { GrantId, SessionId } from "../domain/Ids.ts"
import { Authentication, requires } from "./Authorization.ts"
import { RequestBody } from "./Middleware.ts"
import { page, pageQuery } from "./Pagination.ts"
import { NotFound } from "./Problems.ts"
import { Name } from "./Text.ts"

export const NewGrant = Schema.Struct({
  scope: GrantScope.annotateKey({ description: "Which further steps of the agent session are allowed." }),
  when: Schema.optionalKey(
    Schema.Array(RuleCondition).check(Schema.isMinLength(1), Schema.isMaxLength(MAX_RULE_CONDITIONS))
  ).annotateKey({
    description: `Required for the scope \`condition\`, and not allowed for others: 1 to ${MAX_RULE_CONDITIONS} conditions on the arguments, at most 16,384 characters of JSON. All must hold, also for the step that is approved. A condition that cannot be evaluated does not hold.`
  }),
  lasts_seconds: Schema.optionalKey(
    Schema.Int.check(
      Schema.isBetween(
        { minimum: 1, maximum: MAX_GRANT_SECONDS },
        { expected: `a whole number of seconds from 1 to ${MAX_GRANT_SECONDS} (24 hours)` }
      )
    )
  ).annotateKey({
    description: `How long the grant lasts, in seconds, 1 to 86,400 (24 hours). Default ${DEFAULT_GRANT_SECONDS}.`
  }),
  max_uses: Schema.optionalKey(
    Schema.NullOr(
      Schema.Int.check(
        Schema.isBetween(
          { minimum: 1, maximum: MAX_GRANT_USES },
          { expected: `a whole number from 1 to ${MAX_GRANT_USES}` }
        )
      )
    )
  ).annotateKey({
    description: "How many steps the grant can allow, 1 to 1,000. Default null: any number until it expires."
  }),
  reason: Schema.optionalKey(Schema.String.check(Schema.isMaxLength(1_000))).annotateKey({
    description: "Shown to the agent with each step that is allowed. At most 1,000 characters. Default empty."
  })
}).annotate({
  identifier: "NewGrant",
  description: `A standing grant to make with an approval. A session has at most ${MAX_SESSION_GRANTS} active grants, an organization ${MAX_ORGANIZATION_GRANTS}.`
})
export type NewGrant = typeof NewGrant.Type

/** The filters of the list. */
export const grantFilter = {
  session_id: Schema.optionalKey(SessionId).annotateKey({
    description: "Only grants of this agent session."
  }),
  tool: Schema.optionalKey(Name).annotateKey({ description: "Only grants for this tool." }),
  state: Schema.optionalKey(
    documentedEnum({
      active: "Grants with the status `active`.",
      ended: "All others."
    })
  ).annotateKey({ description: "Only active grants, or only ended ones." })
}
export type GrantFilter = Schema.Struct.Type<typeof grantFilter>

/** A page of grants. */
export const GrantPage = page("grants", Grant, GrantId)

export class GrantsApi extends HttpApiGroup.make("grants")
  .add(
    HttpApiEndpoint.get("list", "/", {
      query: { ...pageQuery(GrantId), ...grantFilter },
      success: GrantPage
    })
      .middleware(requires("approvals.read"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "listGrants",
          summary: "List standing grants",
          description: "Lists standing grants, newest first. Filters can be combined."
        })
      ),
    HttpApiEndpoint.get("get", "/:id", {
      params: { id: GrantId.annotateKey({ description: "The grant's ID." }) },
      success: Grant,
      error: NotFound
    })
      .middleware(requires("approvals.read"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "getGrant",
          summary: "Get a standing grant",
          description: "Returns one standing grant, with how often it was used."
        })
      ),
    HttpApiEndpoint.post("revoke", "/:id/revoke", {
      params: { id: GrantId.annotateKey({ description: "The grant's ID." }) },
      success: Grant,
      error: NotFound
    })
      .middleware(requires("approvals.decide"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "revokeGrant",
          summary: "Revoke a standing grant",
          description: [
            "Ends a grant at once: the next step asks a person again. Steps that it has allowed stay allowed.",
            "Any key that may decide approvals can revoke a grant. Idempotent: a grant that has ended is returned as it is."
          ].join(" ")
        })
      )
  )
  .prefix("/v1/grants")
  .middleware(RequestBody)
  .middleware(Authentication)
  .annotateMerge(
    OpenApi.annotations({
      title: "Grants",
      description:
        "A standing grant is an approval in advance, made with the approval of a step: it allows further steps of the same agent session until a time or a count runs out. It never allows what a rule rejects, or what its maker could not approve alone."
    })
  ) {}
