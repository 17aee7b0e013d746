/** The acceptance of an invitation, by the page that its link opens. It needs no session: the token proves that its holder reads the mailbox. */
import { ByteSize, Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { BodyLimit, RequestBody } from "../Middleware.ts"
import { problem } from "../Problem.ts"
import { RateLimited } from "../Problems.ts"
import { CONSOLE_PATH } from "./consolePath.ts"

/** Unknown, expired, used and revoked links get the same answer. */
export class InvitationNotUsable extends problem<InvitationNotUsable>()(
  "INVITATION_NOT_USABLE",
  409,
  "This invitation cannot be used",
  "The link has expired, was used before or was revoked, or its key cannot be created any more. `detail` says which."
) {}

export class ConsoleInvitationApi extends HttpApiGroup.make("invitation")
  .add(
    HttpApiEndpoint.post("accept", "/", {
      payload: Schema.Struct({ token: Schema.String.check(Schema.isMaxLength(200)) }),
      success: Schema.Struct({ name: Schema.String, secret: Schema.String }),
      error: [InvitationNotUsable, RateLimited]
      // This route needs no key, so a large body is rejected before it is read.
    }).annotate(BodyLimit, ByteSize.kibibytes(4))
  )
  .prefix(`${CONSOLE_PATH}/invitations`)
  .middleware(RequestBody) {}
