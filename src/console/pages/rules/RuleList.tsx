import { useEffect, useRef } from "react"
import { Button as AriaButton } from "react-aria-components/Button"
import { GridList, GridListItem } from "react-aria-components/GridList"
import { useDragAndDrop } from "react-aria-components/useDragAndDrop"
import { findRuleWarnings } from "../../../domain/approvals/ruleWarnings.ts"
import { useQueryParameter } from "../../app/router.tsx"
import { Button } from "../../ui/Button.tsx"
import { FirstRecord } from "../../ui/FirstRecord.tsx"
import { EmptyState } from "../../ui/EmptyState.tsx"
import { effects } from "./EffectBadge.tsx"
import { type RuleDraft, moveItem } from "./RuleDraft.ts"
import { RuleText } from "./RuleText.tsx"

/** The ordered rules. They are reordered by drag and drop, by keyboard on the drag handle, or by the up and down buttons. */
export const RuleList = ({
  drafts,
  editable,
  isSaved,
  onChange,
  onEdit,
  onLook
}: {
  readonly drafts: ReadonlyArray<RuleDraft>
  readonly editable: boolean
  /** Whether the drafts are the saved rules. */
  readonly isSaved: boolean
  /** Looks for rules that were saved elsewhere, while there are none. */
  readonly onLook: () => void
  readonly onChange: (drafts: ReadonlyArray<RuleDraft>) => void
  readonly onEdit: (draft: RuleDraft) => void
}) => {
  const linked = useQueryParameter("rule")
  const list = useRef<HTMLDivElement>(null)
  useEffect(() => {
    // Compared, not part of the selector: anybody can write a link.
    const rows = list.current?.querySelectorAll<HTMLElement>("[data-key]") ?? []
    ;[...rows].find(({ dataset }) => dataset["key"] === linked)?.scrollIntoView({ block: "center" })
  }, [linked])
  const { dragAndDropHooks } = useDragAndDrop({
    getItems: (keys) => [...keys].map((key) => ({ "text/plain": String(key) })),
    isDisabled: !editable,
    onReorder: ({ keys, target }) => {
      const [from] = drafts.flatMap(({ rule }, index) => (keys.has(rule.id) ? [index] : []))
      const at = drafts.findIndex(({ rule }) => rule.id === target.key)
      if (from === undefined || at < 0) return
      const place = target.dropPosition === "after" ? at + 1 : at
      onChange(moveItem(drafts, from, place > from ? place - 1 : place))
    }
  })
  if (drafts.length === 0) {
    return (
      <div className="card">
        {isSaved ? (
          <FirstRecord of={({ firstRule }, origin) => firstRule(origin)} look={onLook} />
        ) : (
          <EmptyState title="No rules">
            With no rules, every step requires approval within one hour.
          </EmptyState>
        )}
      </div>
    )
  }
  const warnings = findRuleWarnings(drafts.map(({ rule }) => rule))
  const warningOf = (index: number) => warnings.find(({ pointer }) => pointer === `#/rules/${index}`)?.detail
  return (
    <GridList
      ref={list}
      aria-label="Rules, in order of evaluation"
      className="rule-list"
      items={drafts.map((draft, index) => ({ id: draft.rule.id, draft, index }))}
      dependencies={[drafts]}
      keyboardNavigationBehavior="tab"
      // Without a drag handle in each row, React Aria would warn.
      {...(editable ? { dragAndDropHooks } : {})}
    >
      {({ draft, index }) => (
        <GridListItem
          id={draft.rule.id}
          className={draft.rule.id === linked ? "card rule linked" : "card rule"}
          textValue={`${index + 1}: ${draft.rule.tool}, ${effects[draft.rule.effect].text}`}
        >
          {editable ? (
            <AriaButton slot="drag" className="drag" aria-label={`Move rule ${index + 1}`}>
              <span aria-hidden="true">⠿</span>
            </AriaButton>
          ) : null}
          {draft.rule.id === linked ? <span className="visually-hidden">The rule of the link.</span> : null}
          <span className="rule-number">{index + 1}</span>
          <RuleText rule={draft.rule} warning={warningOf(index)} />
          {editable ? (
            <div className="row-actions">
              <Button
                small
                kind="bare"
                aria-label={`Move rule ${index + 1} up`}
                disabled={index === 0}
                onClick={() => onChange(moveItem(drafts, index, index - 1))}
              >
                ↑
              </Button>
              <Button
                small
                kind="bare"
                aria-label={`Move rule ${index + 1} down`}
                disabled={index === drafts.length - 1}
                onClick={() => onChange(moveItem(drafts, index, index + 1))}
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
        </GridListItem>
      )}
    </GridList>
  )
}
