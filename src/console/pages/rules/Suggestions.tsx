import { Atom } from "effect/reactivity"
import type { RuleSuggestion } from "../../../api/ApprovalRules.ts"
import { Link } from "../../app/router.tsx"
import { apiClient } from "../../state/apiClient.ts"
import { AsyncContent } from "../../ui/AsyncContent.tsx"
import { Button } from "../../ui/Button.tsx"
import { EmptyState } from "../../ui/EmptyState.tsx"
import { newRuleDraft, type RuleDraft } from "./RuleDraft.ts"
import { RuleText } from "./RuleText.tsx"

const suggestionsAtom = Atom.make(apiClient.approvalRules.suggest())

/** The draft of a suggested rule. */
const draftOf = ({ rule }: RuleSuggestion): RuleDraft => {
  const draft = newRuleDraft()
  return { ...draft, rule: { ...draft.rule, ...rule } }
}

/** Puts a draft where its suggestion belongs: before the rule that asks now, or last. */
const insertSuggestion = (
  drafts: ReadonlyArray<RuleDraft>,
  { before_rule_id }: RuleSuggestion,
  draft: RuleDraft
): ReadonlyArray<RuleDraft> => {
  const at = drafts.findIndex(({ rule }) => rule.id === before_rule_id)
  return at < 0 ? [...drafts, draft] : drafts.toSpliced(at, 0, draft)
}

const isSameRule = ({ rule }: RuleSuggestion, { rule: other }: RuleDraft): boolean =>
  rule.effect === other.effect &&
  rule.tool === other.tool &&
  rule.action_class === other.action_class &&
  rule.task_id === other.task_id &&
  JSON.stringify(rule.when) === JSON.stringify(other.when)

/** Rules that would have decided like people did. One is taken over into the list on the page, which is saved as ever. */
export const Suggestions = ({
  drafts,
  editable,
  onChange
}: {
  readonly drafts: ReadonlyArray<RuleDraft>
  readonly editable: boolean
  readonly onChange: (drafts: ReadonlyArray<RuleDraft>) => void
}) => {
  return (
    <section className="card rules-panel" aria-labelledby="suggestions">
      <div className="card-head">
        <div>
          <h2 id="suggestions">Suggestions</h2>
          <p className="quiet small">
            Rules that would have decided as people did. None applies by itself: take one over, try the rules
            on past steps, then save.
          </p>
        </div>
      </div>
      <AsyncContent atom={suggestionsAtom}>
        {({ looked_at, suggestions, unread }) => (
          <>
            {suggestions.length === 0 ? (
              <EmptyState title="No suggestions">
                There are too few decisions that agree about steps of one kind.
              </EmptyState>
            ) : (
              <ul className="rows">
                {suggestions.map((one) => (
                  <Suggestion
                    key={JSON.stringify(one.rule)}
                    suggestion={one}
                    isTaken={drafts.some((draft) => isSameRule(one, draft))}
                    onTake={
                      editable ? () => onChange(insertSuggestion(drafts, one, draftOf(one))) : undefined
                    }
                  />
                ))}
              </ul>
            )}
            <p className="quiet small padded">
              From the newest {looked_at.toLocaleString("en")} decisions. {unread.toLocaleString("en")} of
              them do not count, because nobody can have read the request in the time.
            </p>
          </>
        )}
      </AsyncContent>
    </section>
  )
}

const Suggestion = ({
  isTaken,
  onTake,
  suggestion
}: {
  readonly suggestion: RuleSuggestion
  readonly isTaken: boolean
  readonly onTake: (() => void) | undefined
}) => {
  const { decisions, error_upper_bound, exception_ids, exceptions, people } = suggestion
  return (
    <li className="row">
      <div className="row-line">
        <div className="row-text stack">
          <RuleText rule={draftOf(suggestion).rule} />
          <p className="small">
            {decisions.toLocaleString("en")} decisions by {people === 1 ? "1 person" : `${people} people`},{" "}
            {exceptions === 1 ? "1 exception" : `${exceptions.toLocaleString("en")} exceptions`} · at most{" "}
            {(error_upper_bound * 100).toFixed(1)} % would be decided otherwise (95 % confidence)
          </p>
          {exception_ids.length === 0 ? null : (
            <p className="small">
              Newest exceptions:{" "}
              {exception_ids.map((id, index) => (
                <span key={id}>
                  {index === 0 ? "" : ", "}
                  <Link to={`/approvals/${id}`}>{index + 1}</Link>
                </span>
              ))}
            </p>
          )}
        </div>
        {onTake === undefined ? null : (
          <span className="row-actions">
            {isTaken ? (
              <span className="quiet small">In the list</span>
            ) : (
              <Button small onClick={onTake}>
                Take over
              </Button>
            )}
          </span>
        )}
      </div>
    </li>
  )
}
