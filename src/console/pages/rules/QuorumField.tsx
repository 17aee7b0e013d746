import {
  MAX_APPROVALS,
  MAX_QUORUM_PARTS,
  type Quorum,
  type QuorumPart
} from "../../../domain/approvals/Quorum.ts"
import { Button } from "../../ui/Button.tsx"
import { WholeNumberInput } from "./WholeNumberInput.tsx"

/** Fields for the approvals that a rule asks for: how many people, and of which group, for each part of its quorum. */
export const QuorumField = ({
  onChange,
  quorum
}: {
  readonly quorum: Quorum
  readonly onChange: (quorum: Quorum) => void
}) => {
  const change = (index: number, part: Partial<QuorumPart>) =>
    onChange(quorum.map((one, at) => (at === index ? { ...one, ...part } : one)))
  return (
    <fieldset className="field">
      <legend className="legend">Approvals needed</legend>
      {quorum.map(({ count, group }, index) => (
        <div key={index} className="quorum-part">
          <WholeNumberInput
            aria-label={`People, part ${index + 1}`}
            min={1}
            max={MAX_APPROVALS}
            value={count}
            onChange={(count) => change(index, { count })}
          />
          <span>of</span>
          <input
            aria-label={`Group, part ${index + 1}`}
            placeholder="anyone"
            maxLength={63}
            pattern="[a-z0-9][a-z0-9._\-]*"
            title="Lowercase letters, digits, dots, hyphens and underscores"
            spellCheck={false}
            autoCapitalize="none"
            value={group ?? ""}
            onChange={({ target }) => change(index, { group: target.value === "" ? null : target.value })}
          />
          {quorum.length === 1 ? null : (
            <Button
              small
              kind="bare"
              aria-label={`Remove part ${index + 1}`}
              onClick={() => onChange(quorum.filter((_, at) => at !== index))}
            >
              Remove
            </Button>
          )}
        </div>
      ))}
      {quorum.length >= MAX_QUORUM_PARTS ? null : (
        <Button small onClick={() => onChange([...quorum, { count: 1, group: null }])}>
          And others
        </Button>
      )}
      <p className="hint">
        People of one group, or of any. With several parts, all are needed. A person counts once; one
        rejection is enough.
      </p>
    </fieldset>
  )
}
