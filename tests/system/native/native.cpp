// thalweg.hpp: every way to write and read, errors with their place, what destructors do. On any number of ranks, with and without MPI.
// The argument is a folder for files.
#include <thalweg.hpp> // before everything else: it needs nothing from its surroundings

#include <array>
#include <cmath>
#include <iostream>
#include <thread>

namespace {

constexpr std::uint64_t rows = 3, nx = 1200;
int rank = 0, ranks = 1, failed = 0;

void check(bool holds, const std::string& name)
{
    int all = holds;
    if (!holds) std::cerr << "rank " << rank << ": \"" << name << "\" does not hold\n";
#ifdef MPI_VERSION
    int mine = all;
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
#endif
    if (rank == 0) std::cout << (all ? "ok " : "not ok ") << name << std::endl;
    failed += !all;
}

// The kind of the failure that f ends with.
template <class F>
std::optional<thalweg::Error> fails(F f)
{
    try {
        f();
    } catch (const thalweg::Error& e) {
        return e;
    }
    return std::nullopt;
}

template <class F>
bool fails(thalweg::Kind kind, F f)
{
    const auto e = fails(f);
    return e && e->kind() == kind;
}

thalweg::Session session()
{
#ifdef MPI_VERSION
    return thalweg::Session(MPI_COMM_WORLD);
#else
    return thalweg::Session();
#endif
}

double value_at(std::uint64_t step, std::uint64_t y, std::uint64_t x)
{
    return 1e6 * static_cast<double>(step) + 1e3 * static_cast<double>(y) + static_cast<double>(x);
}

struct Plate {
    std::vector<double> t = std::vector<double>(rows * nx), kept = t;
    std::vector<float> ghosts = std::vector<float>((rows + 2) * (nx + 2), -1.0f);

    Plate(std::uint64_t step, std::uint64_t first)
    {
        for (std::uint64_t y = 0; y < rows; y++)
            for (std::uint64_t x = 0; x < nx; x++) {
                t[y * nx + x] = value_at(step, first + y, x);
                kept[y * nx + x] = -t[y * nx + x];
                ghosts[(y + 1) * (nx + 2) + x + 1] = static_cast<float>(step * 100 + first + y);
            }
    }
};

const auto all_rows = [] { return rows * static_cast<std::uint64_t>(ranks); };
const auto first_row = [] { return rows * static_cast<std::uint64_t>(rank); };

void declare(thalweg::Session& s)
{
    s.declare("plate")
        .method("MPI")
        .scalar<double>("time")
        .scalar<std::string>("note")
        .scalar<std::complex<float>>("z")
        .scalar<std::uint64_t>("large")
        .scalar<long double>("wide")
        .global<double>("T", thalweg::Dims{all_rows(), nx})
        .global<double>("kept", 2)
        .global<float>("inside", thalweg::Dims{all_rows(), nx})
        .local<std::int16_t>("mark", 1)
        .scalar<int>("n")
        .array<std::int8_t>("text/dims", "n")
        .attribute("T/units", "K")
        .attribute("scale", std::array<double, 3>{1.5, -2.0, 1e300})
        .attribute("sides", std::vector<std::string>{"north", "south"})
        .attribute("level", 7)
        .attribute_of("T/at", "time");
}

void write_step(thalweg::Session& s, const std::string& path, std::uint64_t step)
{
    const Plate plate(step, first_row());
    auto output = s.open("plate", path, step == 0 ? thalweg::Mode::write : thalweg::Mode::append);
    output.reserve(3 * rows * nx * sizeof(double));
    output.write("time", 0.5 * static_cast<double>(step)).write("note", step == 1 ? "" : "a text");
    output.write("z", std::complex<float>(1.5f, static_cast<float>(step))).write("large", (std::uint64_t{1} << 63) + step);
    output.write("wide", 0.1L);
    {
        auto passing = plate.t; // free again when write returns
        output.write("T", passing, {{}, {first_row(), 0}, {rows, nx}});
        std::fill(passing.begin(), passing.end(), 0.0);
    }
    output.write_deferred("kept", plate.kept, {{all_rows(), nx}, {first_row(), 0}, {rows, nx}});
    output.write("inside", plate.ghosts, {{}, {first_row(), 0}, {rows, nx}}, thalweg::Memory::ghosts({rows, nx}, 1));
    const std::int16_t marks[2] = {static_cast<std::int16_t>(rank), 5};
    output.write("mark", marks, {{}, {}, {2}});
    output.write("n", 3).write("text/dims", std::array<std::int8_t, 3>{1, 2, 3});
    output.close();
}

void reads(const std::string& path)
{
#ifdef MPI_VERSION
    thalweg::Reader file(path, MPI_COMM_WORLD);
#else
    thalweg::Reader file(path);
#endif
    check(file.steps() == 3 && file.info().finished && file.groups() == std::vector<std::string>{"plate"} &&
              file.variables().size() == 11 && file.variables().front() == "time" && file.has("T") && !file.has("U"),
          "what a file holds");
    const auto t = file.variable("T");
    check(t.sort == thalweg::Sort::global && t.shape == thalweg::Dims{all_rows(), nx} && t.type == thalweg::element_v<double> &&
              t.steps == std::vector<thalweg::Step>{0, 1, 2} && t.transform.empty(),
          "a variable is described");
    check(file.read<double>("T", 1, thalweg::box({1, 7}, {2, 3})) ==
              std::vector<double>{value_at(1, 1, 7), value_at(1, 1, 8), value_at(1, 1, 9), value_at(1, 2, 7), value_at(1, 2, 8), value_at(1, 2, 9)},
          "a box into new memory");
    check(file.read<double>("T", 1, thalweg::box({1, 7}, {2, 3}, {1, 2})) ==
              std::vector<double>{value_at(1, 1, 7), value_at(1, 1, 9), value_at(1, 2, 7), value_at(1, 2, 9)},
          "every second element of a box");
    file.set_digits(1);
    const double rough = file.read<double>("T", 1, thalweg::box({1, 7}, {1, 1})).front();
    check(rough <= value_at(1, 1, 7) && value_at(1, 1, 7) - rough < 0.1 * value_at(1, 1, 7), "one digit of each number is kept");
    file.set_digits(0);
    check(file.read<double>("kept", thalweg::last, thalweg::points({{0, 0}, {all_rows() - 1, nx - 1}})) ==
              std::vector<double>{-value_at(2, 0, 0), -value_at(2, all_rows() - 1, nx - 1)},
          "points of what was deferred");
    check(file.read<double>("T").size() == all_rows() * nx && file.read_steps<double>("time", 0, 3) == std::vector<double>{0.0, 0.5, 1.0},
          "whole arrays, and several steps");
    check(file.read_value<std::string>("note", 0) == "a text" && file.read_value<std::string>("note", 1).empty() &&
              file.read_value<std::complex<float>>("z", 2) == std::complex<float>(1.5f, 2.0f) &&
              file.read_value<std::uint64_t>("large", 1) == (std::uint64_t{1} << 63) + 1 && file.read_value<long double>("wide") == 0.1L,
          "single values of every sort");
    check(file.read<float>("inside", 2, thalweg::box({all_rows() - 1, nx - 1}, {1, 1})).front() == static_cast<float>(200 + all_rows() - 1),
          "blocks out of arrays with ghost cells");
    check(file.read<std::int16_t>("mark", 0, thalweg::block(static_cast<std::uint64_t>(rank))) ==
                  std::vector<std::int16_t>{static_cast<std::int16_t>(rank), 5} &&
              file.read<std::int8_t>("text/dims", 0) == std::vector<std::int8_t>{1, 2, 3},
          "arrays local to a rank");

    std::array<double, 2> pair{};
    double raw[2] = {};
    std::vector<double> times(1);
    file.read_into("T", pair, 0, thalweg::box({0, 1}, {1, 2}));
    file.read_deferred("T", raw, 1, thalweg::box({0, 1}, {1, 2}));
    file.read_deferred("time", times, 2);
    check(pair[1] == value_at(0, 0, 2) && raw[1] == 0.0, "memory that is there is filled at once, or later");
    file.perform();
    check(raw[1] == value_at(1, 0, 2) && times[0] == 1.0, "all that was noted is read together");
    std::vector<double> framed(4 * 5, 9.0);
    file.read_into("T", framed, 2, thalweg::box({0, 0}, {2, 3}), thalweg::Memory::ghosts({2, 3}, 1));
    check(framed[6] == value_at(2, 0, 0) && framed[13] == value_at(2, 1, 2) && framed[5] == 9.0 && framed[9] == 9.0 && framed[14] == 9.0,
          "a box inside a larger array, whose frame stays");

    const auto known = file.summary("T");
    check(known.min == 0.0 && known.max == value_at(2, all_rows() - 1, nx - 1) && known.mean && known.elements == 3 * all_rows() * nx &&
              known.bounds<double>()->second == *known.max,
          "characteristics");
    const auto blocks = file.blocks("T", 1);
    check(blocks.size() == static_cast<std::size_t>(ranks) && blocks.back().offset == thalweg::Dims{all_rows() - rows, 0} &&
              blocks.back().count == thalweg::Dims{rows, nx} && !blocks.back().subfile,
          "blocks");
    check(file.attribute<std::string>("T/units") == "K" && file.attribute<std::vector<double>>("scale")[2] == 1e300 &&
              file.attribute<std::vector<std::string>>("sides")[1] == "south" && file.attribute<int>("level") == 7 &&
              file.attribute<double>("T/at") == 1.0 && file.attributes().size() == 5,
          "attributes of every sort");
    check(fails(thalweg::Kind::invalid_argument, [&] { file.attribute<float>("level"); }) &&
              fails(thalweg::Kind::invalid_argument, [&] { file.attribute<double>("scale"); }) &&
              fails(thalweg::Kind::invalid_argument, [&] { file.read<float>("T"); }) &&
              fails(thalweg::Kind::invalid_argument, [&] { file.read_into("T", pair); }) &&
              fails(thalweg::Kind::out_of_bounds, [&] { file.read<double>("T", 0, thalweg::box({0, nx}, {1, 1})); }) &&
              fails(thalweg::Kind::not_found, [&] { file.read<double>("T", 3); }),
          "other types, sizes, boxes and steps are refused");
    const auto e = fails([&] { file.read<double>("tim"); });
    check(e && e->place().variable == "tim" && e->place().object && e->place().object->find("cpp.bp") != std::string::npos &&
              !e->reported_by() && e->reason().find("\"time\"") != std::string::npos,
          "an error carries its place");
    thalweg::Reader moved = std::move(file);
    file = std::move(moved);
    check(file.steps() == 3, "readers move");
}

// Names with several slashes: of scalars, of an array and the scalar that its extent is, of attributes; defined in code and in XML.
void slashes(const std::string& path, bool in_xml)
{
    const std::string how = in_xml ? " in XML" : " in code";
    const std::string xml = "<adios-config host-language=\"C\"><adios-group name=\"g\"><var name=\"a//b\" type=\"integer\"/>"
                            "<var name=\"//b\" type=\"integer\"/><var name=\"c\" path=\"a///b\" type=\"integer\"/>"
                            "<var name=\"many\" path=\"of//them\" type=\"double\" dimensions=\"a//b\"/>"
                            "<attribute name=\"units\" path=\"of//them/many\" type=\"string\" value=\"K\"/></adios-group>"
                            "<method group=\"g\" method=\"MPI\"/></adios-config>";
#ifdef MPI_VERSION
    auto s = in_xml ? thalweg::Session::from_text(xml, "slashes.xml", MPI_COMM_WORLD) : session();
#else
    auto s = in_xml ? thalweg::Session::from_text(xml, "slashes.xml") : session();
#endif
    if (!in_xml)
        s.declare("g").method("MPI").scalar<int>("a//b").scalar<int>("//b").scalar<int>("a///b/c").array<double>("of//them/many", "a//b").attribute("of//them/many/units", "K");
    auto output = s.open("g", path, thalweg::Mode::write);
    output.write("a//b", 3).write("//b", 11).write("a///b/c", 12).write("of//them/many", std::vector<double>{0.5, 1.5, 2.5});
    check(fails(thalweg::Kind::not_found, [&] { output.write("a/b", 3); }), "a name with one slash is another one" + how);
    output.close();
    s.close();
    thalweg::Reader file(path);
    check(file.variables().size() == 4 && file.read_value<int>("a//b") == 3 && file.read_value<int>("//b") == 11 &&
              file.read_value<int>("a///b/c") == 12 && file.read<double>("of//them/many") == std::vector<double>{0.5, 1.5, 2.5} &&
              file.attribute<std::string>("of//them/many/units") == "K",
          "names with several slashes are read as they were defined" + how);
    check(!file.has("a/b") && !file.has("a/b/c"), "and no others are there" + how);
}

void outputs_that_are_not_closed(const std::string& folder)
{
    auto s = session();
    declare(s);
    const std::string path = folder + "/cpp-dropped.bp";
    {
        auto output = s.open("plate", path, thalweg::Mode::write);
        output.write("time", 1.0);
    } // one line on standard error
    bool caught = false;
    try {
        auto output = s.open("plate", path, thalweg::Mode::write);
        output.write("time", 1.0);
        throw std::runtime_error("the solver diverged");
    } catch (const std::runtime_error&) {
        caught = true;
    }
    check(caught, "an exception passes an open output");
    for (std::uint64_t step = 0; step < 2; step++) write_step(s, path, step);
    check(thalweg::Reader(path).steps() == 2, "outputs that were dropped are in nobody's way");
    {
        check(fails([&] { s.open_after("plate", path, -1); }).has_value(), "there is no step before the first");
        auto output = s.open_after("plate", path, 0);
        check(output.step() == 1, "a restart goes on behind a step");
        output.write("time", 77.0).close();
        check(!output.is_open() && fails(thalweg::Kind::invalid_argument, [&] { output.write("time", 1.0); }) &&
                  fails(thalweg::Kind::invalid_argument, [&] { output.close(); }),
              "what is closed is not written");
    }
    check(thalweg::Reader(path).read_value<double>("time") == 77.0, "later steps are dropped");

    // The last rank can't go on; the others keep theirs.
    auto output = s.open("plate", folder + "/cpp-abandoned.bp", thalweg::Mode::write);
    output.write("T", Plate(0, first_row()).t, {{}, {first_row(), 0}, {rows, nx}});
    if (rank == ranks - 1) {
        output.abandon("the solver diverged");
        check(!output.is_open(), "a rank that gives up is heard of");
    } else {
        const auto e = fails([&] { output.close(); });
        check(e && e->reported_by() == ranks - 1 && e->place().rank == rank, "a rank that gives up is heard of");
    }
    check(fails(thalweg::Kind::config, [&] { s.declare("plate"); }) && fails(thalweg::Kind::not_found, [&] { s.group("plats"); }) &&
              fails(thalweg::Kind::config, [&] { s.group("plate").method("MPIX"); }) &&
              fails(thalweg::Kind::config, [] { thalweg::Session::from_text("<adios-config><oops/></adios-config>"); }),
          "declarations that make no sense are refused");
    auto refused = s.open("plate", folder + "/cpp-refused.bp", thalweg::Mode::write);
    const std::vector<double> few(3);
    check(fails(thalweg::Kind::invalid_argument, [&] { refused.write("T", few); }) &&
              fails(thalweg::Kind::invalid_argument, [&] { refused.write("time", 1.0f); }) &&
              fails(thalweg::Kind::invalid_argument, [&] { refused.write("T", std::vector<double>(), {{}, {0, 0}, {1, 3}}); }) &&
              fails(thalweg::Kind::invalid_argument, [&] { refused.write("T", few, {{}, {0}, {1, 3}}); }) &&
              fails(thalweg::Kind::not_found, [&] { refused.write("U", 1.0); }),
          "so are blocks of another type or size");
    refused.drop();
    s.close();
}

void follows(const std::string& path)
{
    // The writer is a thread of rank 0; it has a session of its own. A file of an earlier run is not to be followed.
    std::remove(path.c_str());
#ifdef MPI_VERSION
    MPI_Barrier(MPI_COMM_WORLD);
#endif
    std::thread writer;
    if (rank == 0)
        writer = std::thread([path] {
            thalweg::Session alone;
            alone.declare("numbers").method("MPI").scalar<int>("n").scalar<double>("x");
            for (int n = 0; n < 4; n++) {
                auto output = alone.open("numbers", path, n == 0 ? thalweg::Mode::write : thalweg::Mode::append);
                output.write("n", n).write("x", 0.5 * n).close();
                std::this_thread::sleep_for(std::chrono::milliseconds(100));
            }
        }); // its session ends there, and closes the file for good
#ifdef MPI_VERSION
    auto file = thalweg::Reader::follow(path, std::chrono::seconds(300), MPI_COMM_WORLD);
#else
    auto file = thalweg::Reader::follow(path, std::chrono::seconds(300));
#endif
    int n = 0;
    bool right = true;
    thalweg::Next next;
    do {
        right = right && file.step() == n && file.read_value<int>("n", file.step()) == n;
        n++;
        next = file.advance(std::chrono::seconds(300));
    } while (next == thalweg::Next::step);
    if (writer.joinable()) writer.join();
    check(right && n == 4 && next == thalweg::Next::end, "a file is followed step by step to its end");
    check(fails(thalweg::Kind::not_found, [&] { thalweg::Reader::follow(path + "-never", std::chrono::milliseconds(50)); }),
          "a file that never comes is not waited for");
}

void views()
{
    std::vector<int> v{1, 2, 3};
    const std::vector<int>& c = v;
    std::array<int, 2> a{4, 5};
    int raw[] = {6};
    thalweg::View<int> from_vector(v), from_array(a), from_raw(raw), from_pointer(v.data(), 2);
    thalweg::View<const int> of_const(c), widened(from_vector);
    from_vector[0] = 9;
    int sum = 0;
    for (int n : of_const) sum += n;
    check(sum == 14 && from_array.size() == 2 && from_raw[0] == 6 && from_pointer.size() == 2 && widened.data() == v.data() &&
              thalweg::View<int>().empty() && !std::is_convertible_v<const std::vector<int>&, thalweg::View<int>> &&
              !std::is_convertible_v<std::vector<long>&, thalweg::View<int>>,
          "views are made of what holds elements, const stays const");
#if defined(__cpp_lib_span)
    std::span<int> span = from_vector;
    check(span.size() == 3 && thalweg::View<int>(span).data() == v.data(), "views and std::span turn into each other");
#endif
}

#if defined(__cpp_lib_mdspan)
void mdspans(const std::string& path)
{
    auto s = session();
    s.declare("m").method("MPI").global<double>("T", thalweg::Dims{all_rows(), nx});
    Plate plate(0, first_row());
    const std::mdspan m(plate.t.data(), std::size_t{rows}, std::size_t{nx});
    auto output = s.open("m", path, thalweg::Mode::write);
    output.write_deferred("T", m, {{}, {first_row(), 0}, {}}); // the count is the mdspan's
    output.close();
    s.close();
    std::vector<double> back(2 * 3);
    thalweg::Reader(path).read_into("T", std::mdspan(back.data(), std::size_t{2}, std::size_t{3}), 0, thalweg::box({1, 1}, {2, 3}));
    check(back[0] == value_at(0, 1, 1) && back[5] == value_at(0, 2, 3), "an mdspan brings its extents along");
}
#endif

} // namespace

int main(int argc, char** argv)
{
    const std::string folder = argc > 1 ? argv[1] : ".";
#ifdef MPI_VERSION
    int level;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
#endif
    try {
        views();
        auto s = session();
        declare(s);
        for (std::uint64_t step = 0; step < 3; step++) write_step(s, folder + "/cpp.bp", step);
        s.close();
        reads(folder + "/cpp.bp");
        slashes(folder + "/cpp-slashes.bp", false);
        slashes(folder + "/cpp-slashes.bp", true);
        outputs_that_are_not_closed(folder);
        follows(folder + "/cpp-followed.bp");
#if defined(__cpp_lib_mdspan)
        mdspans(folder + "/cpp-mdspan.bp");
#endif
    } catch (const thalweg::Error& e) {
        std::cerr << "rank " << rank << ": " << e.what() << '\n';
        if (rank == 0) std::cout << "not ok no failure is left over" << std::endl;
#ifdef MPI_VERSION
        MPI_Abort(MPI_COMM_WORLD, 1);
#endif
        return 1;
    }
#ifdef MPI_VERSION
    MPI_Finalize();
#endif
    return failed != 0;
}
