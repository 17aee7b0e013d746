import { type DragEvent, useEffect, useRef, useState } from "react"
import { findCovering, findRuleWarnings, type RuleWarning } from "../../../domain/approvals/ruleWarnings.ts"
import { useQueryParameter } from "../../app/router.tsx"
import { announce } from "../../ui/announce.ts"
import { Button } from "../../ui/Button.tsx"
import { FirstRecord } from "../../ui/FirstRecord.tsx"
import { EmptyState } from "../../ui/EmptyState.tsx"
import { type RuleDraft, moveItem } from "./RuleDraft.ts"
import { RuleText } from "./RuleText.tsx"

/** The place above or below a rule that a dragged rule would take. */
interface Drop {
  readonly index: number
  readonly side: "before" | "after"
}

/** The ordered rules. They are reordered by dragging the handle, by the arrow keys on it, or by the up and down buttons. */
export const RuleList = ({
  drafts,
  editable,
  onChange,
  onEdit,
  onLook,
  saved
}: {
  readonly drafts: ReadonlyArray<RuleDraft>
  readonly editable: boolean
  /** The warnings of the service about the saved rules, if the drafts are these; undefined: they differ. */
  readonly saved: ReadonlyArray<RuleWarning> | undefined
  /** Looks for rules that were saved elsewhere, while there are none. */
  readonly onLook: () => void
  readonly onChange: (drafts: ReadonlyArray<RuleDraft>) => void
  readonly onEdit: (draft: RuleDraft) => void
}) => {
  const linked = useQueryParameter("rule")
  const list = useRef<HTMLOListElement>(null)
  useEffect(() => {
    // Compared, not part of the selector: anybody can write a link.
    const rows = list.current?.querySelectorAll<HTMLElement>("[data-key]") ?? []
    ;[...rows].find(({ dataset }) => dataset["key"] === linked)?.scrollIntoView({ block: "center" })
  }, [linked])
  const [dragged, setDragged] = useState<number>()
  const [drop, setDrop] = useState<Drop>()
  const move = (from: number, to: number) => {
    if (to < 0 || to >= drafts.length) return
    onChange(moveItem(drafts, from, to))
    announce(`Rule ${from + 1} is now rule ${to + 1}`)
  }
  const onDragOver = (event: DragEvent, index: number) => {
    if (dragged === undefined) return
    // The browser only drops where this is prevented.
    event.preventDefault()
    const { height, top } = event.currentTarget.getBoundingClientRect()
    setDrop({ index, side: event.clientY < top + height / 2 ? "before" : "after" })
  }
  const onDragEnd = (event: DragEvent) => {
    event.preventDefault()
    if (event.type === "drop" && dragged !== undefined && drop !== undefined) {
      const place = drop.side === "after" ? drop.index + 1 : drop.index
      move(dragged, place > dragged ? place - 1 : place)
    }
    setDragged(undefined)
    setDrop(undefined)
  }
  if (drafts.length === 0) {
    return (
      <div className="card">
        {saved !== undefined ? (
          <FirstRecord of={({ firstRule }, origin) => firstRule(origin)} look={onLook} />
        ) : (
          <EmptyState title="No rules">
            With no rules, every step requires approval within one hour.
          </EmptyState>
        )}
      </div>
    )
  }
  const rules = drafts.map(({ rule }) => rule)
  const warnings = saved ?? findRuleWarnings(rules)
  const warningOf = (index: number, rule: RuleDraft["rule"]): string | undefined => {
    const covering = findCovering(rules.slice(0, index), rule)
    return covering < 0
      ? warnings.find(({ pointer }) => `${pointer}/`.startsWith(`#/rules/${index}/`))?.detail
      : `Never reached: rule ${covering + 1} matches all its steps. Move this rule above it.`
  }
  return (
    <ol ref={list} aria-label="Rules, in order of evaluation" className="rule-list">
      {drafts.map((draft, index) => (
        // oxlint-disable-next-line jsx-a11y/no-noninteractive-element-interactions -- a place to drop; the handle has keys
        <li
          key={draft.rule.id}
          data-key={draft.rule.id}
          data-dragging={index === dragged ? "" : undefined}
          data-drop={index === drop?.index ? drop.side : undefined}
          className={draft.rule.id === linked ? "card rule linked" : "card rule"}
          onDragOver={(event) => onDragOver(event, index)}
          onDrop={onDragEnd}
        >
          {editable ? (
            <button
              type="button"
              className="drag"
              draggable
              aria-label={`Move rule ${index + 1} by dragging or with the arrow keys`}
              onDragStart={({ currentTarget, dataTransfer }) => {
                dataTransfer.setData("text/plain", draft.rule.id)
                const row = currentTarget.parentElement
                if (row !== null) dataTransfer.setDragImage(row, 0, 0)
                setDragged(index)
              }}
              onDragEnd={onDragEnd}
              onKeyDown={(event) => {
                if (event.key !== "ArrowUp" && event.key !== "ArrowDown") return
                event.preventDefault()
                move(index, event.key === "ArrowUp" ? index - 1 : index + 1)
              }}
            >
              <span aria-hidden="true">⠿</span>
            </button>
          ) : null}
          {draft.rule.id === linked ? <span className="visually-hidden">The rule of the link.</span> : null}
          <span className="rule-number">{index + 1}</span>
          <RuleText rule={draft.rule} warning={warningOf(index, draft.rule)} />
          {editable ? (
            <div className="row-actions">
              <Button
                small
                kind="bare"
                aria-label={`Move rule ${index + 1} up`}
                disabled={index === 0}
                onClick={() => move(index, index - 1)}
              >
                ↑
              </Button>
              <Button
                small
                kind="bare"
                aria-label={`Move rule ${index + 1} down`}
                disabled={index === drafts.length - 1}
                onClick={() => move(index, index + 1)}
              >
                ↓
              </Button>
              <Button small aria-label={`Edit rule ${index + 1}`} onClick={() => onEdit(draft)}>
                Edit
              </Button>
              <Button
                small
                kind="bare"
                aria-label={`Remove rule ${index + 1}`}
                onClick={() => onChange(drafts.filter((one) => one !== draft))}
              >
                Remove
              </Button>
            </div>
          ) : null}
        </li>
      ))}
    </ol>
  )
}
