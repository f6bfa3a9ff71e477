# Erlang: many processes with messages, binaries and ets tables, on several schedulers.
# needs: erl erlang-base
# timeout: 300
cat >t.erl <<'E'
-module(t).
-export([main/0]).
worker(Parent, N) ->
    Tab = ets:new(t, [set]),
    [ets:insert(Tab, {I, binary:copy(<<I:32>>, 1 + I rem 300)}) || I <- lists:seq(1, 500)],
    Sum = ets:foldl(fun({_, B}, A) -> A + byte_size(B) end, 0, Tab),
    Parent ! {N, Sum + erlang:phash2(lists:sort([integer_to_list(I * N) || I <- lists:seq(1, 200)]))}.
main() ->
    Self = self(),
    Rounds = [begin
        [spawn(fun() -> worker(Self, N) end) || N <- lists:seq(1, 100)],
        lists:sum([receive {N, Sum} -> Sum end || N <- lists:seq(1, 100)])
    end || _ <- lists:seq(1, 10)],
    io:format("~p~n", [lists:usort(Rounds)]),
    Big = [crypto_free(I) || I <- lists:seq(1, 50)],
    io:format("~p~n", [erlang:phash2(Big)]),
    halt(0).
crypto_free(I) -> erlang:md5(binary:copy(<<I>>, 200000)).
E
export ERL_CRASH_DUMP_SECONDS=0
erlc t.erl
erl -noinput -boot start_clean -s t main
