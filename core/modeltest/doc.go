// Package modeltest is a scripted language model: an HTTP server that speaks
// the OpenAI Responses, the OpenAI Chat Completions and the Anthropic Messages
// wire and answers as a script says. Tests use it in place of a provider, and it is the engine of the
// gateway's offline driver. It is no mock of a library: real clients talk real
// HTTP to it.
//
// # How a step is chosen
//
// The engine keeps no state between requests. Everything it needs stands in
// the request: which model is asked, and the conversation so far. So a client
// that was killed, resumed or retried gets the step that its own history calls
// for, and the same request always has the same answer.
//
// A model's response is one unbroken run of assistant items in the history. A
// model has plain steps and rules. For each response the first rule whose
// conditions hold answers; when none holds, the plain steps do. Plain steps
// count over the whole conversation: the plain step n answers when the plain
// steps have answered n-1 times before. The steps of a rule count from the
// latest user message. Past its last step a section that ends with "repeat"
// gives that step again; any other refuses the request with HTTP 400.
//
// # The language
//
// A script is text, one statement a line; indentation is free, and a line that
// begins with # is a comment. Texts are Go string literals, or a block: <<END,
// then lines up to a line that holds END alone.
//
//	# The key that the client sends as "model"; a script may have many.
//	model lead
//
//	  # Plain steps.
//	  step
//	    think "Two jobs can run side by side."
//	    say "I ask two workers."
//	    call mcp__mmo_mesh agent_spawn {"agent": "reader", "task": "look"}
//	    call mcp__mmo_mesh agent_spawn {"agent": "checker", "task": "look"}
//	    usage input=900 cached=300 output=40 reasoning=12
//	  step
//	    call mcp__mmo_mesh agents_wait {"job_ids": ["${job_id 1}", "${job_id 2}"]}
//	  step
//	    say <<END
//	    They said:
//	    ${content 1 else nothing}
//	    END
//
//	  # A rule: it answers while its conditions hold.
//	  when output has timed_out_waiting true
//	    step
//	      call mcp__mmo_mesh agents_wait {"job_ids": ["${job_id 1}", "${job_id 2}"]}
//	    repeat
//
//	  when user starts "[recovery]" and not any user contains "stop"
//	    step
//	      say "Going on."
//
//	  # Back to the plain steps of this model.
//	  otherwise
//	  step
//	    goal complete
//
// Conditions are joined by "and"; "not" before one turns it round:
//
//	user starts|contains TEXT      one of the latest user messages
//	any user starts|contains TEXT  one of all user messages
//	system contains TEXT           one of the system or developer messages
//	output contains TEXT           a tool output since the last response
//	output has FIELD VALUE         the same, holding "FIELD":VALUE as JSON
//	tool NAME                      the request offers a tool of this name
//
// Actions of a step, done in order:
//
//	say TEXT                      text, streamed in small pieces
//	think TEXT                    reasoning text
//	json {...}                    text that is compact JSON
//	call [NAMESPACE] NAME {...}   a function call; several make one parallel batch
//	call-raw [NAMESPACE] NAME TEXT  a function call with just these arguments,
//	                              so that malformed ones can be sent
//	custom NAME TEXT              a call of a freeform tool
//	shell TEXT                    call exec_command {"cmd": TEXT}
//	goal complete|blocked         call update_goal {"status": ...}
//	delay 500ms                   wait
//	hold GATE                     wait until Engine.Release(GATE)
//	usage input=N cached=N output=N reasoning=N, or usage none
//	finish stop|length|content_filter
//	cut [N deltas|N bytes]        break the connection there; bare: now
//	error STATUS TYPE TEXT [code=C] [retry-after=V] [resets-at=V]
//	                              refuse with a provider's error body
//	fail TYPE TEXT                an error object in the middle of the stream
//
// In every text and in JSON strings ${FIELD N} stands for the N-th distinct
// value of the JSON string field FIELD in the tool outputs of the conversation
// so far, counted from 1, or the last with "last". A JSON string that is
// exactly "${FIELD N json}" is replaced by the value itself, which may be a
// number. ${@output N} is a whole tool output, ${@user N} a user message. With
// "else WORDS" before the brace a missing value is WORDS; without it the
// request is refused. Any other ${...} is left as it is.
package modeltest
