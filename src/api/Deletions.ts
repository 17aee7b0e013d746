import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { Deletion } from "../domain/deletion/Deletion.ts"
import { documented } from "../domain/documented.ts"
import { DeletionId } from "../domain/Ids.ts"
import { EndUserId } from "../domain/tasks/EndUser.ts"
import { Authentication, requires } from "./Authorization.ts"
import { Idempotent, idempotencyHeaders, RequestBody } from "./Middleware.ts"
import { page, pageQuery } from "./Pagination.ts"
import { LimitReached, NotFound } from "./Problems.ts"
import { withoutNul } from "./Text.ts"

export const MetadataSubject = Schema.Struct({
  metadata_key: Schema.String.check(
    Schema.isMinLength(1),
    Schema.isMaxLength(200),
    withoutNul,
    documented({ minLength: 1 })
  ).annotateKey({
    description:
      "Name of a member at the top level of the `metadata` of runs and agent sessions, such as `customer_id`: 1 to 200 characters."
  }),
  metadata_value: Schema.Union([
    Schema.String.check(Schema.isMaxLength(1_000), withoutNul),
    Schema.Finite,
    Schema.Boolean
  ]).annotateKey({
    description:
      "Its value: a string of at most 1,000 characters, a number or a boolean. It is compared as a whole, and is not stored."
  })
}).annotate({
  identifier: "MetadataSubject",
  description: "A data subject that your requests named by a member of the metadata."
})

export const EndUserSubject = Schema.Struct({
  end_user_id: EndUserId.annotateKey({
    description:
      "Your ID of the end user, as you gave it with feedback or for a feedback token: 1 to 256 characters, not the pseudonym. It is not stored."
  })
}).annotate({ identifier: "EndUserSubject", description: "An end user who gave feedback." })

export const NewErasure = Schema.Union([MetadataSubject, EndUserSubject], { mode: "oneOf" }).annotate({
  identifier: "NewErasure",
  description: "The data subject to erase: a member of the metadata that your requests gave, or an end user."
})
export type NewErasure = typeof NewErasure.Type

/** A page of deletions. */
export const DeletionPage = page("deletions", Deletion, DeletionId)

export class DeletionsApi extends HttpApiGroup.make("deletions")
  .add(
    HttpApiEndpoint.get("list", "/v1/deletions", {
      query: pageQuery(DeletionId),
      success: DeletionPage
    })
      .middleware(requires("data.delete"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "listDeletions",
          summary: "List deletions",
          description:
            "Lists the deletions of tasks and dataset versions, and the erasures of data subjects, newest first."
        })
      ),
    HttpApiEndpoint.get("get", "/v1/deletions/:id", {
      params: { id: DeletionId.annotateKey({ description: "The deletion's ID." }) },
      success: Deletion,
      error: NotFound
    })
      .middleware(requires("data.delete"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "getDeletion",
          summary: "Get a deletion",
          description: "Returns one deletion with its progress."
        })
      ),
    HttpApiEndpoint.post("erase", "/v1/erasures", {
      headers: idempotencyHeaders,
      payload: NewErasure,
      success: Deletion.pipe(HttpApiSchema.status(202)),
      error: LimitReached
    })
      .middleware(Idempotent)
      .middleware(requires("data.delete"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "createErasure",
          summary: "Erase a data subject",
          description: [
            "Deletes all runs and agent sessions whose `metadata` has this member, with the feedback on the runs, and erases the examples that corrections of them became from every dataset version.",
            "With `end_user_id`: deletes the feedback that you or your pages gave for this end user, and erases the examples that its corrections became. The runs stay.",
            "A background worker does it; `GET /v1/deletions/:id` returns the progress. Then the data is gone from lists, exports and the database; a second request finds nothing.",
            "Examples that were added or imported directly have no metadata: remove them by `remove` of a new dataset version, and delete the earlier versions.",
            "The audit log gets the key and a digest of key and value, or the pseudonym of the end user, and not the value. An organization can have 100 running deletions."
          ].join(" ")
        })
      )
  )
  .middleware(RequestBody)
  .middleware(Authentication)
  .annotateMerge(
    OpenApi.annotations({
      title: "Deletion",
      description:
        "Deletions that take more than one request: of tasks, dataset versions, and all data of a data subject."
    })
  ) {}
