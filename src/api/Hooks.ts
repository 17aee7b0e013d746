import { ByteSize, Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiMiddleware, OpenApi } from "effect/http-api"
import { JsonValue } from "../domain/json/JsonValue.ts"
import { waitSeconds } from "./AgentSessions.ts"
import { Authentication, requires } from "./Authorization.ts"
import { BodyLimit, foreignBody, RequestBody } from "./Middleware.ts"

/** Longest wait of one request, in seconds: Claude Code ends a hook after ten minutes. */
export const MAX_HOOK_WAIT_SECONDS = 540

/** The wait of a request that names none, in seconds: proxies end requests after a minute. */
export const DEFAULT_HOOK_WAIT_SECONDS = 50

const member = (description: string) => Schema.optionalKey(JsonValue).annotateKey({ description })

// Every member is any JSON: a missing member, or one of another type, is denied, not refused.
export const ClaudeCodeHookInput = Schema.Struct({
  hook_event_name: member(
    "The event: `PreToolUse`, `PostToolUse`, `PostToolUseFailure` or `SessionEnd`. Others are denied."
  ),
  session_id: member("Claude Code's ID of its session: a string of 1 to 200 characters."),
  tool_use_id: member(
    "Claude Code's ID of the call, which is the step's: visible characters. A longer ID than 200 characters is shortened by its digest, and the ID of another call gets a digest of the content."
  ),
  tool_name: member("The tool: 1 to 200 visible characters."),
  tool_input: member("The tool's arguments: any JSON."),
  permission_mode: member("The mode of Claude Code's own permissions, a string. Absent in older versions."),
  tool_response: member("Of `PostToolUse`: the tool's result, any JSON."),
  error: member("Of `PostToolUseFailure`: the error, a string."),
  is_interrupt: member(
    "Of `PostToolUseFailure`: whether the call was interrupted, a boolean. Then no outcome is recorded."
  )
}).annotate({
  identifier: "ClaudeCodeHookInput",
  description:
    "The input of a hook, as Claude Code sends it. Other members are ignored. Input that is not understood is answered with a denial."
})
export type ClaudeCodeHookInput = typeof ClaudeCodeHookInput.Type

export const ClaudeCodeHookAnswer = Schema.Struct({
  hookSpecificOutput: Schema.optionalKey(Schema.Record(Schema.String, JsonValue)).annotateKey({
    description:
      "The decision, in the form of the event: of `PreToolUse`, a `permissionDecision` of `allow`, `deny` or `defer`."
  }),
  decision: Schema.optionalKey(Schema.Literal("block")).annotateKey({
    description: "`block`: the input is not understood, or the service failed, and `reason` says why."
  }),
  reason: Schema.optionalKey(Schema.String).annotateKey({ description: "Why it is blocked." }),
  systemMessage: Schema.optionalKey(Schema.String).annotateKey({
    description: "A message for the user, such as that an outcome was not recorded."
  })
}).annotate({
  identifier: "ClaudeCodeHookAnswer",
  description: "The answer to a hook of Claude Code, in its own format. Empty if there is nothing to decide."
})
export type ClaudeCodeHookAnswer = typeof ClaudeCodeHookAnswer.Type

/**
 * Answers a request that is refused, other than for its key, or that the service fails to serve, with a denial: a coding agent lets a call pass
 * whose hook fails. Runs around `Authentication` and `RequestBody`.
 */
export class HookDenials extends HttpApiMiddleware.Service<HookDenials>()("countersign/api/HookDenials") {}

export class HooksApi extends HttpApiGroup.make("hooks")
  .add(
    HttpApiEndpoint.post("claudeCode", "/claude-code", {
      query: {
        wait_seconds: waitSeconds(MAX_HOOK_WAIT_SECONDS, DEFAULT_HOOK_WAIT_SECONDS),
        defer: Schema.optionalKey(Schema.Literals(["true", "false"])).annotateKey({
          description:
            "`true`: a call that needs a person is answered with `defer`, which ends a headless run (`claude -p`) at this call, so that it can be resumed after the decision. Default `false`."
        })
      },
      payload: ClaudeCodeHookInput,
      success: ClaudeCodeHookAnswer
    })
      .middleware(requires("sessions.write"))
      .annotate(BodyLimit, ByteSize.mebibytes(4))
      .annotateMerge(foreignBody)
      .annotateMerge(
        OpenApi.annotations({
          identifier: "answerClaudeCodeHook",
          summary: "Answer a hook of Claude Code",
          description: [
            "For `http` hooks of Claude Code. `PreToolUse` asks for a decision about the call, as a governed step whose ID is `tool_use_id`, in an agent session of the API key for this session of Claude Code, which is created on first use. A call that needs a person waits, and is then denied; the same call asks again under the same approval. A call with the ID of one that has an outcome, or other arguments, is another call. `PostToolUse` and `PostToolUseFailure` record the outcome. `SessionEnd` closes the agent session, unless a call waits.",
            'Claude Code lets a call pass whose hook gets an error, unless the hook has `onFailure: "block"`: set it. Requests that are refused for another reason than the API key, such as malformed bodies, get 200 with a denial, and so do requests that the service fails to serve.',
            "Body limit: 4 MiB."
          ].join(" ")
        })
      )
  )
  .prefix("/v1/hooks")
  .middleware(RequestBody)
  .middleware(Authentication)
  .middleware(HookDenials)
  .annotateMerge(
    OpenApi.annotations({
      title: "Hooks",
      description:
        "Coding agents ask by their hooks, in their own format. The command `countersign hook` does the same without a limit of the wait."
    })
  ) {}
