import { Context, DateTime, Effect, Layer } from "effect"
import type { Claim } from "../../domain/approvals/AgentSession.ts"
import type { StepDecisionSource } from "../../domain/approvals/AgentSession.ts"
import { type ExecutionRecord, toClaim } from "../../domain/approvals/Execution.ts"
import type { StepId } from "../../domain/Ids.ts"
import type { Ticket } from "../../ticket/index.ts"
import { SecretBox } from "../secrets/SecretBox.ts"
import type { StepKey } from "./SessionWriter.ts"

/** The step of a claim. */
export interface ClaimedStep {
  readonly step_id: StepId
  readonly tool: string
  readonly action_class: string
  readonly arguments_digest: string
}

/** Issues tickets: a claim that a tool can verify by itself, with `countersign/ticket` and the public keys of the service. */
export class Tickets extends Context.Service<
  Tickets,
  {
    /** The claim of an execution, with its ticket. Signing takes 40 µs. */
    readonly claimOf: (
      key: Pick<StepKey, "org_id" | "session_id">,
      step: ClaimedStep,
      decision_source: StepDecisionSource | null,
      execution: ExecutionRecord
    ) => Claim
  }
>()("countersign/server/approvals/Tickets") {
  /** `publicUrl` is the issuer of the tickets. */
  static readonly layer = ({
    publicUrl
  }: {
    readonly publicUrl: string
  }): Layer.Layer<Tickets, never, SecretBox> =>
    Layer.effect(
      Tickets,
      Effect.map(SecretBox, (box) => {
        const iss = publicUrl.replace(/\/+$/u, "")
        return Tickets.of({
          claimOf: (
            { org_id, session_id },
            { action_class, arguments_digest, step_id, tool },
            source,
            execution
          ) => {
            const ticket = signTicket(box, {
              iss,
              org_id,
              session_id,
              step_id,
              tool,
              action_class,
              arguments_digest,
              decision_source: source ?? "rule",
              jti: execution.claim_id,
              iat: toSeconds(execution.claimed_at),
              exp: toSeconds(execution.expires_at)
            })
            return { ...toClaim(execution, { arguments_digest, step_id }), ticket }
          }
        })
      })
    )
}

const toSeconds = (at: DateTime.Utc): number => Math.floor(DateTime.toEpochMillis(at) / 1_000)

/** A ticket as a compact JWS (RFC 7515). */
export const signTicket = (
  { publicKeys: [key], signPublicly }: Pick<SecretBox["Service"], "publicKeys" | "signPublicly">,
  ticket: Ticket
): string => {
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url")
  const text = `${part({ alg: key.alg, typ: "countersign-ticket+jwt", kid: key.kid })}.${part(ticket)}`
  return `${text}.${Buffer.from(signPublicly(Buffer.from(text))).toString("base64url")}`
}
