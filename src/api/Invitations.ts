import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { Invitation, InvitationStatus, MAX_PENDING_INVITATIONS } from "../domain/identity/Invitation.ts"
import { InvitationId } from "../domain/Ids.ts"
import { EmailAddress, NewApiKey } from "./ApiKeys.ts"
import { Authentication, requires } from "./Authorization.ts"
import { Idempotent, idempotencyHeaders, RequestBody } from "./Middleware.ts"
import { page, pageQuery } from "./Pagination.ts"
import {
  InsufficientScope,
  LimitReached,
  MailNotConfigured,
  NameInUse,
  NotFound,
  RateLimited
} from "./Problems.ts"

export const NewInvitation = Schema.Struct({
  ...NewApiKey.fields,
  email: EmailAddress.annotateKey({
    description:
      "Where the link is sent: an email address of at most 254 characters. It also becomes the address of the key's approval emails; accepting the invitation verifies it."
  })
}).annotate({
  identifier: "NewInvitation",
  description: "The API key that accepting the invitation creates. Give a preset, scopes, or both."
})
export type NewInvitation = typeof NewInvitation.Type

/** The query of a list of invitations. */
export const InvitationQuery = Schema.Struct({
  ...pageQuery(InvitationId),
  status: Schema.optionalKey(InvitationStatus).annotateKey({
    description: "Only invitations of this status. Default: all."
  })
})
export type InvitationQuery = typeof InvitationQuery.Type

export const InvitationPage = Schema.Struct({
  ...page("invitations", Invitation, InvitationId).fields,
  mail_configured: Schema.Boolean.annotateKey({
    description: "Whether the service has a mail server. Without one, nobody can be invited."
  })
}).annotate({ identifier: "InvitationPage", description: "One page of the list, newest first." })

export class InvitationsApi extends HttpApiGroup.make("invitations")
  .add(
    HttpApiEndpoint.get("list", "/", { query: InvitationQuery.fields, success: InvitationPage })
      .middleware(requires("keys.write"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "listInvitations",
          summary: "List invitations",
          description:
            "Lists the organization's invitations, newest first. Those that have ended are listed for 30 days."
        })
      ),
    HttpApiEndpoint.post("create", "/", {
      headers: idempotencyHeaders,
      payload: NewInvitation,
      success: Invitation.pipe(HttpApiSchema.status(201)),
      error: [InsufficientScope, LimitReached, NameInUse, MailNotConfigured, RateLimited]
    })
      .middleware(Idempotent)
      .middleware(requires("keys.write"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "createInvitation",
          summary: "Invite a person",
          description: [
            "Sends a link by email. Who opens it and accepts gets an API key with these rights, in the name of the calling key, and signs in to the console with it. The email does not contain the key. The link works once, within seven days.",
            `The rights are checked as for a new key: now, and again when the invitation is accepted. An organization has at most ${MAX_PENDING_INVITATIONS} pending invitations, and an address is sent at most three links within an hour.`
          ].join("\n\n")
        })
      ),
    HttpApiEndpoint.delete("revoke", "/:id", {
      params: { id: InvitationId.annotateKey({ description: "The invitation's ID." }) },
      error: [InsufficientScope, NotFound]
    })
      .middleware(requires("keys.write"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "revokeInvitation",
          summary: "Revoke an invitation",
          description:
            "Ends a pending invitation, whose link then cannot be used. The calling key needs every right that the invitation gives. Idempotent. One that was accepted does not change: revoke its key."
        })
      )
  )
  .prefix("/v1/invitations")
  .middleware(RequestBody)
  .middleware(Authentication)
  .annotateMerge(
    OpenApi.annotations({
      title: "Invitations",
      description: "Invitations give people API keys by email. Only the link is sent, never a key."
    })
  ) {}
