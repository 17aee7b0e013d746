import { Atom } from "effect/reactivity"
import { useEffect, useEffectEvent, useState } from "react"
import type { ApprovalId, StepId } from "../../../../domain/Ids.ts"
import { useAtomValue } from "../../../state/atoms.ts"
import { consoleClient } from "../../../state/consoleClient.ts"
import { AsyncContent } from "../../../ui/AsyncContent.tsx"
import { Button } from "../../../ui/Button.tsx"
import { JsonTree } from "../../../ui/JsonTree.tsx"
import { UntrustedText } from "../../../ui/UntrustedText.tsx"
import type { Schema } from "effect"

/** An approval whose arguments the comparison does not show: they can be shown, or confirmed as known. */
export const UncomparedArguments = ({
  bytes,
  checked,
  id,
  onChecked,
  step,
  tool
}: {
  readonly id: ApprovalId
  readonly tool: string
  readonly step: StepId
  /** Undefined: not known. */
  readonly bytes: number | undefined
  readonly checked: boolean
  readonly onChecked: (checked: boolean) => void
}) => {
  const [isOpen, setOpen] = useState(false)
  return (
    <li className="sheet-item uncompared">
      <span className="sheet-item-name">
        <UntrustedText text={tool} />{" "}
        <span className="quiet">
          <UntrustedText text={step} />
          {bytes === undefined ? "" : `, ${Math.ceil(bytes / 1024).toLocaleString("en")} KiB`}
        </span>
      </span>
      <Button
        small
        aria-expanded={isOpen}
        aria-label={`${isOpen ? "Hide" : "Show"} arguments of ${step}`}
        onClick={() => setOpen(!isOpen)}
      >
        {isOpen ? "Hide" : "Show"} arguments
      </Button>
      <label className="check">
        <input type="checkbox" checked={checked} onChange={({ target }) => onChecked(target.checked)} />
        <span>I know these arguments</span>
      </label>
      {isOpen ? <LoadedArguments id={id} onShown={() => onChecked(true)} /> : null}
    </li>
  )
}

const itemAtom = Atom.family((id: ApprovalId) => Atom.make(consoleClient.inbox.get({ params: { id } })))

const LoadedArguments = ({ id, onShown }: { readonly id: ApprovalId; readonly onShown: () => void }) => {
  const atom = itemAtom(id)
  return (
    <AsyncContent result={useAtomValue(atom)} atom={atom}>
      {({ approval }) => <ShownArguments value={approval.arguments} onShown={onShown} />}
    </AsyncContent>
  )
}

const ShownArguments = ({
  onShown,
  value
}: {
  readonly value: Schema.Json | undefined
  readonly onShown: () => void
}) => {
  const shown = useEffectEvent(onShown)
  useEffect(() => shown(), [])
  return <JsonTree label="Arguments" value={value} />
}
