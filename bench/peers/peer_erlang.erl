%% The Erlang rows that stand beside bench_actors and bench_links. Run by bench/run.sh:
%%   erlc -o DIR peer_erlang.erl && erl -noshell +P 2000000 -pa DIR -sname tide_bench_a -setcookie tide_bench -s peer_erlang main [json]
-module(peer_erlang).
-export([main/0, main/1, echo_loop/0]).

main() -> main([]).
main(Args) ->
    Json = lists:member(json, Args),
    row(Json, "ping-pong", "M round trips/s", ping_pong(2000000)),
    row(Json, "fan-in 2 -> 1", "M messages/s", fan_in(2000000)),
    row(Json, "spawn", "M actors/s", spawn_many(300000)),
    case start_peer() of
        {ok, Node} ->
            Echo = spawn(Node, peer_erlang, echo_loop, []),
            remote(Json, Echo);
        _ -> io:format(standard_error, "erlang: no second node, distribution rows skipped~n", [])
    end,
    halt(0).

row(true, What, Unit, Value) ->
    io:format("{\"schema\":\"tide.bench/1\",\"bench\":\"erlang\",\"row\":\"~s\",\"unit\":\"~s\",\"value\":~.4f}~n", [What, Unit, Value]);
row(false, What, Unit, Value) ->
    io:format("~-10s ~-48s ~12.4f ~s~n", ["erlang", What, Value, Unit]).

seconds(F) ->
    T0 = erlang:monotonic_time(nanosecond), F(), (erlang:monotonic_time(nanosecond) - T0) / 1.0e9.

echo_loop() -> receive {From, X} -> From ! X, echo_loop(); stop -> ok; _ -> echo_loop() end.

ping_pong(N) ->
    P = spawn(fun echo_loop/0), Self = self(),
    N / seconds(fun() -> rounds(P, Self, N) end) / 1.0e6.

rounds(_, _, 0) -> ok;
rounds(P, Self, N) -> P ! {Self, x}, receive x -> rounds(P, Self, N - 1) end.

fan_in(N) ->
    Self = self(),
    [spawn(fun() -> flood(Self, N) end) || _ <- [1, 2]],
    2 * N / seconds(fun() -> drain(2 * N) end) / 1.0e6.

flood(_, 0) -> ok;
flood(To, N) -> To ! x, flood(To, N - 1).
drain(0) -> ok;
drain(N) -> receive x -> drain(N - 1) end.

spawn_many(N) ->
    N / seconds(fun() -> [spawn(fun() -> receive stop -> ok end end) || _ <- lists:seq(1, N)] end) / 1.0e6.

start_peer() ->
    os:cmd("erl -sname tide_bench_b -setcookie tide_bench -noinput -detached -pa " ++ filename:dirname(code:which(?MODULE))),
    [_, Host] = string:tokens(atom_to_list(node()), "@"),
    Node = list_to_atom("tide_bench_b@" ++ Host),
    wait(Node, 50).
wait(_, 0) -> timeout;
wait(Node, N) ->
    case net_adm:ping(Node) of pong -> {ok, Node}; _ -> timer:sleep(100), wait(Node, N - 1) end.

remote(Json, Echo) ->
    Times = lists:sort([begin T0 = erlang:monotonic_time(nanosecond), Echo ! {self(), x}, receive x -> ok end,
                        erlang:monotonic_time(nanosecond) - T0 end || _ <- lists:seq(1, 20000)]),
    row(Json, "round trip between nodes, p50", "us", lists:nth(10000, Times) / 1.0e3),
    Body = binary:copy(<<0>>, 64),
    N = 300000,
    T = seconds(fun() -> [Echo ! Body || _ <- lists:seq(1, N)], Echo ! {self(), x}, receive x -> ok end end),
    row(Json, "pipelined 64 B", "M messages/s", N / T / 1.0e6),
    rpc:cast(node(Echo), erlang, halt, []).
