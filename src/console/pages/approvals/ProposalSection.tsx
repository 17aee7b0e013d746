import type { Schema } from "effect"
import type { CounterProposal } from "../../../domain/approvals/CounterProposal.ts"
import { useNow } from "../../state/useNow.ts"
import { JsonTree } from "../../ui/JsonTree.tsx"
import { AbsoluteTime } from "../../ui/Time.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { proposableArguments, ProposalDiff } from "./ProposalField.tsx"

/** The arguments that a rejection proposed, and whether a step has used them. */
export const ProposalSection = ({
  proposal,
  stepArguments
}: {
  readonly proposal: CounterProposal
  readonly stepArguments: Schema.Json | undefined
}) => {
  const original = proposableArguments(stepArguments)
  const proposed = proposal.arguments === undefined ? undefined : proposableArguments(proposal.arguments)
  return (
    <section aria-label="Proposed arguments">
      <h3>Proposed arguments</h3>
      <p className="quiet">
        <ProposalUse proposal={proposal} />
      </p>
      {proposed === undefined ? null : original === undefined ? (
        <JsonTree label="Proposed arguments" value={proposed} />
      ) : (
        <ProposalDiff original={original} proposed={proposed} />
      )}
    </section>
  )
}

const ProposalUse = ({ proposal: { expires_at, used_by } }: { readonly proposal: CounterProposal }) => {
  const now = useNow()
  if (used_by !== null)
    return (
      <>
        Used by step <UntrustedText text={used_by} />
      </>
    )
  return expires_at.epochMilliseconds <= now ? (
    <>
      Not used; expired <AbsoluteTime time={expires_at} />
    </>
  ) : (
    <>
      Not used yet; the agent can use them until <AbsoluteTime time={expires_at} />
    </>
  )
}
